//! Messages as lines of JSON have them, to the library and back.

use std::collections::HashMap;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rocketmq::model::message::{Message, MessageBuilder, MessageView};
use serde_json::{json, Value};

use crate::Failure;

pub fn texts(said: &Value) -> Vec<String> {
    said.as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
}

pub fn to_send(said: &Value, half: bool) -> Result<impl Message, Failure> {
    let body = STANDARD.decode(said["body"].as_str().unwrap_or_default()).expect("base64");
    let properties: HashMap<String, String> = said["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_string()))
        .collect();
    let mut builder = MessageBuilder::builder()
        .set_topic(said["topic"].as_str().unwrap_or_default())
        .set_body(body)
        .set_keys(texts(&said["keys"]))
        .set_properties(properties);
    if let Some(tag) = said["tag"].as_str() {
        builder = builder.set_tag(tag);
    }
    if let Some(group) = said["group"].as_str() {
        builder = builder.set_message_group(group);
    }
    if let Some(due) = said["deliverAt"].as_i64() {
        builder = builder.set_delivery_timestamp((due + 999) / 1000); // it knows whole seconds only
    }
    if half {
        builder = builder.enable_transaction();
    }
    Ok(builder.build()?)
}

pub fn as_received(message: &MessageView) -> Value {
    json!({
        "topic": message.topic(),
        "body": STANDARD.encode(message.body()),
        "tag": message.tag(),
        "keys": message.keys(),
        "properties": message.properties(),
        "group": message.message_group(),
        "deliverAt": message.delivery_timestamp().map(|seconds| seconds * 1000),
        "id": message.message_id(),
        "attempt": message.delivery_attempt(),
    })
}
