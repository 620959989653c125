//! What the fields of a plain pull say. Twin of what `protocol.headers.consume` does for such a request.

use std::ops::Range;

use crate::heads::{Fields, Request, read};
use crate::json::{Json, int, number};

const PULL_MESSAGE: i32 = 11;
const LITE_PULL_MESSAGE: i32 = 361;
const STREAM: i32 = 0;
/// Bytes of texts; Python allows as many characters.
const MAX_NAME: usize = 255;
const MAX_CLIENT_ID: usize = 1024;
const MAX_EXPRESSION: usize = 32_768;

/// What a pull says of itself; texts are parts of the header.
pub struct Head {
    pub code: i32,
    pub opaque: i32,
    pub group: Range<usize>,
    pub topic: Range<usize>,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub max_count: i32,
    pub sys_flag: i32,
    pub commit_offset: i64,
    pub sub_version: i64,
    pub subscription: Option<Range<usize>>,
    pub expression_type: Option<Range<usize>>,
    max_bytes: Option<i32>,
    request_type: Option<i32>,
}

impl Head {
    /// How many bytes a stream takes at once; nothing for others.
    pub fn stream_bytes(&self) -> Option<i32> {
        self.max_bytes.filter(|_| self.request_type == Some(STREAM))
    }
}

/// A pull in either form that wants an answer.
pub fn read_pull(header: &[u8], binary: bool) -> Option<Head> {
    let Request { code, opaque, flag, fields } = read::<Pulled>(header, binary, &mut Vec::new())?;
    let plain = fields.seen & NEEDED == NEEDED && flag == 0;
    plain.then_some(Head { code, opaque, ..fields.head })
}

#[derive(Clone, Copy)]
enum Field {
    Group,
    Topic,
    QueueId,
    QueueOffset,
    MaxCount,
    SysFlag,
    CommitOffset,
    SubVersion,
    Subscription,
    ExpressionType,
    Int,
    Long,
    Name,
    ClientId,
    Bool,
    MaxBytes,
    RequestType,
}

/// Which C++ clients write without quotes.
fn is_number(field: Field) -> bool {
    use Field::{CommitOffset, Int, Long, MaxBytes, MaxCount, QueueId, QueueOffset, RequestType, SubVersion, SysFlag};
    matches!(
        field,
        QueueId | QueueOffset | MaxCount | SysFlag | CommitOffset | SubVersion | Int | Long | MaxBytes | RequestType
    )
}

/// Those that are required.
const NEEDED: u32 = 0x1FF;

/// The field of a name, with the bit under which it is known to have been there.
fn field(name: &[u8]) -> Option<(Field, u32)> {
    let (field, number) = match name {
        b"consumerGroup" => (Field::Group, 0),
        b"topic" => (Field::Topic, 1),
        b"queueId" => (Field::QueueId, 2),
        b"queueOffset" => (Field::QueueOffset, 3),
        b"maxMsgNums" => (Field::MaxCount, 4),
        b"sysFlag" => (Field::SysFlag, 5),
        b"commitOffset" => (Field::CommitOffset, 6),
        b"suspendTimeoutMillis" => (Field::Long, 7),
        b"subVersion" => (Field::SubVersion, 8),
        b"subscription" => (Field::Subscription, 9),
        b"expressionType" => (Field::ExpressionType, 10),
        b"maxMsgBytes" => (Field::MaxBytes, 11),
        b"requestSource" => (Field::Int, 12),
        b"proxyFrowardClientId" => (Field::ClientId, 13),
        b"ReqT" => (Field::RequestType, 14),
        b"bname" => (Field::Name, 15),
        b"ns" => (Field::Name, 16),
        b"nsd" => (Field::Bool, 17),
        b"oway" => (Field::Bool, 18),
        b"lo" => (Field::Bool, 19),
        _ => return None,
    };
    Some((field, 1 << number))
}

/// Fields as they come, and which have been there.
struct Pulled {
    head: Head,
    seen: u32,
}

impl Pulled {
    /// Take the value of a field, which lies at `place` of the header; `None` if it was there already.
    fn take(&mut self, field: Field, bit: u32, header: &[u8], place: Range<usize>) -> Option<()> {
        if self.seen & bit != 0 {
            return None;
        }
        self.seen |= bit;
        let value = header.get(place.clone())?;
        let head = &mut self.head;
        match field {
            Field::Group if value.len() <= MAX_NAME => head.group = place,
            Field::Topic if value.len() <= MAX_NAME => head.topic = place,
            Field::QueueId => head.queue_id = int(value)?,
            Field::QueueOffset => head.queue_offset = number(value)?,
            Field::MaxCount => head.max_count = int(value)?,
            Field::SysFlag => head.sys_flag = int(value)?,
            Field::CommitOffset => head.commit_offset = number(value)?,
            Field::SubVersion => head.sub_version = number(value)?,
            Field::Subscription if value.len() <= MAX_EXPRESSION => head.subscription = Some(place),
            Field::ExpressionType if value.len() <= MAX_NAME => head.expression_type = Some(place),
            Field::MaxBytes => head.max_bytes = Some(int(value)?),
            Field::RequestType => head.request_type = Some(int(value)?),
            Field::Int => drop(int(value)?),
            Field::Long => drop(number(value)?),
            Field::Name if value.len() <= MAX_NAME => {}
            Field::ClientId if value.len() <= MAX_CLIENT_ID => {}
            Field::Bool if value == b"true" || value == b"false" => {}
            _ => return None,
        }
        Some(())
    }
}

impl Fields for Pulled {
    fn of(code: i32) -> Option<Self> {
        let head = Head {
            code,
            opaque: 0,
            group: 0..0,
            topic: 0..0,
            queue_id: 0,
            queue_offset: 0,
            max_count: 0,
            sys_flag: 0,
            commit_offset: 0,
            sub_version: 0,
            subscription: None,
            expression_type: None,
            max_bytes: None,
            request_type: None,
        };
        (code == PULL_MESSAGE || code == LITE_PULL_MESSAGE).then_some(Self { head, seen: 0 })
    }

    fn json(&mut self, name: &[u8], json: &mut Json<'_>, _arena: &mut Vec<u8>) -> Option<()> {
        let Some((field, bit)) = field(name) else { return json.plain().map(drop) };
        let place = if is_number(field) { json.maybe_bare()? } else { json.plain()? };
        self.take(field, bit, json.text, place)
    }

    fn binary(&mut self, name: &[u8], header: &[u8], value: Range<usize>, _arena: &mut Vec<u8>) -> Option<()> {
        field(name).map_or(Some(()), |(field, bit)| self.take(field, bit, header, value))
    }
}
