//! A push consumer made of a simple one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rocketmq::model::message::MessageView;
use serde_json::json;

use crate::{message, say, Consumer};

/// Seconds of a long poll.
pub const WAIT: u64 = 10;
/// For how long a message that fails is gone, since the library cannot say so later; no less is allowed.
const INVISIBLE: Duration = Duration::from_secs(10);

/// Tells and acknowledges messages until it is aborted.
pub async fn listen(client: String, consumer: Arc<Consumer>) {
    let mut told = HashMap::new();
    loop {
        let received = consumer.client.receive_with(&consumer.topic, &consumer.expression, 32, INVISIBLE).await;
        match received {
            Ok(messages) => consume(&client, &consumer, messages, &mut told).await,
            Err(error) => {
                eprintln!("{client}: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn consume(client: &str, consumer: &Consumer, messages: Vec<MessageView>, told: &mut HashMap<String, u32>) {
    let mut stopped = HashSet::new();
    for each in messages {
        // What follows a failed one in its message group comes again after it.
        if each.message_group().is_some_and(|group| stopped.contains(group)) {
            continue;
        }
        say(json!({"event": "message", "client": client, "message": message::as_received(&each)}));
        let times = told.entry(each.message_id().to_string()).or_default();
        *times += 1;
        let failures = each.properties().get("failures").and_then(|text| text.parse().ok()).unwrap_or(0);
        if *times <= failures {
            stopped.extend(each.message_group().map(String::from));
        } else if let Err(error) = consumer.client.ack(&each).await {
            eprintln!("{client}: {error}");
        }
    }
}
