//! Keeps clients of the official gRPC library for Rust and does with them what grpcdrivers.py describes.
//! Usage: interop HOST:PORT tls|plain
//!
//! The library has no recall and no way to change for how long a message is invisible, and no push consumers: a simple
//! one that is asked again and again stands in for them.

mod listener;
mod message;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageView;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinHandle;

/// What the server's codes are called by the library, and their numbers, as far as scenarios look at them.
const CODES: [(&str, u32); 8] = [
    ("ILLEGAL_FILTER_EXPRESSION", 40010),
    ("ILLEGAL_INVISIBLE_TIME", 40011),
    ("ILLEGAL_DELIVERY_TIME", 40012),
    ("INVALID_RECEIPT_HANDLE", 40013),
    ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", 40014),
    ("UNAUTHORIZED", 40100),
    ("TOPIC_NOT_FOUND", 40402),
    ("MESSAGE_BODY_TOO_LARGE", 41301),
];

struct Consumer {
    client: SimpleConsumer,
    topic: String,
    expression: FilterExpression,
}

enum Client {
    Producer(Arc<Producer>),
    Consumer(Arc<Consumer>),
    Listener(Arc<Consumer>, JoinHandle<()>),
}

struct Driver {
    endpoint: String,
    tls: bool,
    clients: Mutex<HashMap<String, Client>>,
    received: Mutex<HashMap<(String, String), Arc<MessageView>>>,
}

type Answer = Result<Value, Failure>;

struct Failure {
    text: String,
    code: Option<u32>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let name = error.context().iter().find(|(key, _)| *key == "code");
        let code = name.and_then(|(_, name)| CODES.iter().find(|(known, _)| known == name));
        Failure { text: error.to_string(), code: code.map(|(_, number)| *number) }
    }
}

fn failure(text: impl Into<String>) -> Failure {
    Failure { text: text.into(), code: None }
}

fn text<'a>(command: &'a Value, name: &str) -> &'a str {
    command[name].as_str().unwrap_or_default()
}

fn alone<T>(shared: Arc<T>) -> Result<T, Failure> {
    Arc::into_inner(shared).ok_or_else(|| failure("a command still uses it"))
}

/// Prints one line: a single write, so that lines of commands that end together do not mix.
fn say(what: Value) {
    let _ = std::io::stdout().write_all(format!("{what}\n").as_bytes());
}

impl Driver {
    async fn run(&self, command: Value) -> Answer {
        let name = text(&command, "client");
        match text(&command, "do") {
            "producer" => self.start_producer(name, &command).await,
            "simple" => {
                // It is the deadline of the call too, and Apache's proxy wants some of that for itself.
                let wait = 2 * command["wait"].as_u64().unwrap_or_default();
                let consumer = self.start_consumer(&command, wait).await?;
                self.keep(name, Client::Consumer(consumer))
            }
            "push" => {
                let consumer = self.start_consumer(&command, listener::WAIT).await?;
                let task = tokio::spawn(listener::listen(name.to_string(), consumer.clone()));
                self.keep(name, Client::Listener(consumer, task))
            }
            "send" => {
                let receipt = self.producer(name)?.send(message::to_send(&command["message"], false)?).await?;
                Ok(json!({"id": receipt.message_id()}))
            }
            "transaction" => {
                let half = message::to_send(&command["message"], true)?;
                let transaction = self.producer(name)?.send_transaction_message(half).await?;
                let id = transaction.message_id().to_string();
                match text(&command, "outcome") {
                    "commit" => transaction.commit().await?,
                    "rollback" => transaction.rollback().await?,
                    _ => {}
                }
                Ok(json!({"id": id}))
            }
            "receive" => self.receive(name, &command).await,
            "ack" => {
                let key = (name.to_string(), text(&command, "message").to_string());
                let entry = self.received.lock().unwrap().get(&key).cloned();
                let entry = entry.ok_or_else(|| failure("nobody received it"))?;
                self.consumer(name)?.client.ack(entry.as_ref()).await?;
                Ok(json!({}))
            }
            "close" => {
                let client = self.clients.lock().unwrap().remove(name);
                match client.ok_or_else(|| failure("nobody is called that"))? {
                    Client::Producer(one) => alone(one)?.shutdown().await?,
                    Client::Consumer(one) => alone(one)?.client.shutdown().await?,
                    Client::Listener(one, task) => {
                        task.abort();
                        let _ = task.await;
                        alone(one)?.client.shutdown().await?
                    }
                }
                Ok(json!({}))
            }
            other => Err(failure(format!("this library has no {other}"))),
        }
    }

    fn options(&self, command: &Value) -> ClientOption {
        let mut options = ClientOption::default();
        options.set_access_url(&self.endpoint);
        options.set_enable_tls(self.tls);
        options.set_timeout(Duration::from_secs(10));
        if let Some([access_key, secret_key]) = command["credentials"].as_array().map(Vec::as_slice) {
            options.set_access_key(access_key.as_str().unwrap_or_default());
            options.set_secret_key(secret_key.as_str().unwrap_or_default());
        }
        options
    }

    async fn start_producer(&self, name: &str, command: &Value) -> Answer {
        let mut options = ProducerOption::default();
        options.set_topics(message::texts(&command["topics"]));
        let client = name.to_string();
        let checker = move |_: String, half: MessageView| {
            say(json!({"event": "check", "client": client, "message": message::as_received(&half)}));
            match half.properties().get("outcome").map(String::as_str) {
                Some("commit") => TransactionResolution::COMMIT,
                _ => TransactionResolution::ROLLBACK,
            }
        };
        let mut producer = Producer::new_transaction_producer(options, self.options(command), Box::new(checker))?;
        producer.start().await?;
        self.keep(name, Client::Producer(Arc::new(producer)))
    }

    async fn start_consumer(&self, command: &Value, wait: u64) -> Result<Arc<Consumer>, Failure> {
        let topic = text(command, "topic").to_string();
        let expression = match command["sql"].as_str() {
            Some(sql) => FilterExpression::new(FilterType::Sql, sql),
            None => FilterExpression::new(FilterType::Tag, command["tag"].as_str().unwrap_or("*")),
        };
        let mut options = SimpleConsumerOption::default();
        options.set_consumer_group(text(command, "group"));
        options.set_topics(vec![topic.clone()]);
        let mut common = self.options(command);
        common.set_long_polling_timeout(Duration::from_secs(wait));
        let mut client = SimpleConsumer::new(options, common)?;
        client.start().await?;
        Ok(Arc::new(Consumer { client, topic, expression }))
    }

    async fn receive(&self, name: &str, command: &Value) -> Answer {
        let consumer = self.consumer(name)?;
        let most = command["max"].as_i64().unwrap_or(1) as i32;
        let invisible = Duration::from_secs(command["invisible"].as_u64().unwrap_or_default());
        let got = consumer.client.receive_with(&consumer.topic, &consumer.expression, most, invisible).await?;
        let messages: Vec<Value> = got.iter().map(message::as_received).collect();
        let mut received = self.received.lock().unwrap();
        for each in got {
            received.insert((name.to_string(), each.message_id().to_string()), Arc::new(each));
        }
        Ok(json!({"messages": messages}))
    }

    fn keep(&self, name: &str, client: Client) -> Answer {
        self.clients.lock().unwrap().insert(name.to_string(), client);
        Ok(json!({}))
    }

    fn producer(&self, name: &str) -> Result<Arc<Producer>, Failure> {
        match self.clients.lock().unwrap().get(name) {
            Some(Client::Producer(producer)) => Ok(producer.clone()),
            _ => Err(failure("no producer is called that")),
        }
    }

    fn consumer(&self, name: &str) -> Result<Arc<Consumer>, Failure> {
        match self.clients.lock().unwrap().get(name) {
            Some(Client::Consumer(consumer)) => Ok(consumer.clone()),
            _ => Err(failure("no consumer is called that")),
        }
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let driver = Arc::new(Driver {
        endpoint: arguments[1].clone(),
        tls: arguments[2] == "tls",
        clients: Mutex::default(),
        received: Mutex::default(),
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let command: Value = serde_json::from_str(&line).expect("a command");
        let driver = driver.clone();
        tokio::spawn(async move {
            let id = command["id"].clone();
            // In a task of its own: the library panics where it lacks a connection.
            let done = tokio::spawn(async move { driver.run(command).await }).await;
            say(match done.unwrap_or_else(|error| Err(failure(error.to_string()))) {
                Ok(answer) => json!({"id": id, "ok": answer}),
                Err(Failure { text, code: Some(code) }) => json!({"id": id, "error": text, "code": code}),
                Err(Failure { text, code: None }) => json!({"id": id, "error": text}),
            });
        });
    }
    std::process::exit(0); // with whatever tasks the library still has
}
