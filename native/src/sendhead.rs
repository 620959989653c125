//! What the fields of a plain send or batch say. Twin of what `protocol.headers.send` does for such a request.

use std::ops::Range;

use crate::heads::{Fields, Request, read};
use crate::json::{Json, int, number};

const SEND_MESSAGE: i32 = 10;
const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;
const ONEWAY_FLAG: i32 = 2;
/// Bytes of a name; Python allows as many characters.
const MAX_NAME: usize = 255;
/// Of what is stored in a plain record.
const MAX_TOPIC: usize = 127;

/// What a send says of itself. `topic` is a part of the header, `text` (the properties) one of the arena.
pub struct Head {
    pub code: i32,
    pub opaque: i32,
    pub oneway: bool,
    pub topic: Range<usize>,
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub flag: i32,
    pub reconsume_times: i32,
    pub text: Range<usize>,
}

impl Head {
    pub fn is_batch(&self) -> bool {
        self.code == SEND_BATCH_MESSAGE
    }
}

/// What a field of a send is, whatever its name.
#[derive(Clone, Copy)]
enum Field {
    Name,
    Topic,
    Int,
    QueueId,
    SysFlag,
    BornTimestamp,
    Flag,
    Properties,
    ReconsumeTimes,
    Bool,
    Batch,
}

/// The field of a name, with the bit under which it is known to have been there.
fn field(code: i32, name: &[u8]) -> Option<(Field, u32)> {
    let (field, number) = if code != SEND_MESSAGE {
        match name {
            b"a" => (Field::Name, 0),
            b"b" => (Field::Topic, 1),
            b"c" => (Field::Name, 2),
            b"d" => (Field::Int, 3),
            b"e" => (Field::QueueId, 4),
            b"f" => (Field::SysFlag, 5),
            b"g" => (Field::BornTimestamp, 6),
            b"h" => (Field::Flag, 7),
            b"i" => (Field::Properties, 8),
            b"j" => (Field::ReconsumeTimes, 9),
            b"k" => (Field::Bool, 10),
            b"l" => (Field::Int, 11),
            b"m" => (Field::Batch, 12),
            b"n" => (Field::Name, 13),
            b"ns" => (Field::Name, 14),
            b"nsd" => (Field::Bool, 15),
            b"oway" => (Field::Bool, 16),
            b"lo" => (Field::Bool, 17),
            _ => return None,
        }
    } else {
        match name {
            b"producerGroup" => (Field::Name, 0),
            b"topic" => (Field::Topic, 1),
            b"defaultTopic" => (Field::Name, 2),
            b"defaultTopicQueueNums" => (Field::Int, 3),
            b"queueId" => (Field::QueueId, 4),
            b"sysFlag" => (Field::SysFlag, 5),
            b"bornTimestamp" => (Field::BornTimestamp, 6),
            b"flag" => (Field::Flag, 7),
            b"properties" => (Field::Properties, 8),
            b"reconsumeTimes" => (Field::ReconsumeTimes, 9),
            b"unitMode" => (Field::Bool, 10),
            b"maxReconsumeTimes" => (Field::Int, 11),
            b"batch" => (Field::Batch, 12),
            b"bname" => (Field::Name, 13),
            b"ns" => (Field::Name, 14),
            b"nsd" => (Field::Bool, 15),
            b"oway" => (Field::Bool, 16),
            b"lo" => (Field::Bool, 17),
            _ => return None,
        }
    };
    Some((field, 1 << number))
}

/// Those without which a send is not plain: all that are required, and the properties, which a batch may lack.
const NEEDED: u32 = 0x1FF;
const NEEDED_IN_BATCH: u32 = 0xFF;

/// A send in either form. What its properties say goes to the end of the arena.
pub fn read_send(header: &[u8], binary: bool, arena: &mut Vec<u8>) -> Option<Head> {
    let Request { code, opaque, flag, fields } = read::<Sent>(header, binary, arena)?;
    let needed = if fields.head.is_batch() { NEEDED_IN_BATCH } else { NEEDED };
    let plain = fields.seen & needed == needed && (flag == 0 || flag == ONEWAY_FLAG);
    plain.then_some(Head { code, opaque, oneway: flag == ONEWAY_FLAG, ..fields.head })
}

/// Fields as they come, and which have been there.
struct Sent {
    head: Head,
    seen: u32,
}

impl Sent {
    /// Take the value of a field, all but the properties, which lies at `place` of the header.
    fn take(&mut self, field: Field, header: &[u8], place: Range<usize>) -> Option<()> {
        let value = header.get(place.clone())?;
        let head = &mut self.head;
        match field {
            Field::Name if value.len() <= MAX_NAME => {}
            Field::Topic if !value.is_empty() && value.len() <= MAX_TOPIC => head.topic = place,
            Field::Int => drop(int(value)?),
            Field::QueueId => head.queue_id = int(value)?,
            Field::SysFlag => head.sys_flag = int(value)?,
            Field::BornTimestamp => head.born_timestamp = number(value)?,
            Field::Flag => head.flag = int(value)?,
            Field::ReconsumeTimes => head.reconsume_times = int(value)?,
            Field::Bool if value == b"true" || value == b"false" => {}
            Field::Batch if value == b"false" || (value == b"true" && head.is_batch()) => {}
            _ => return None,
        }
        Some(())
    }

    /// Note that a field is there; `None` if it was already.
    fn once(&mut self, bit: u32) -> Option<()> {
        let before = self.seen;
        self.seen |= bit;
        (before & bit == 0).then_some(())
    }

    /// A field of no name that is known here: to a batch it may say whose it is.
    fn unknown(&self) -> Option<()> {
        (!self.head.is_batch()).then_some(())
    }
}

impl Fields for Sent {
    fn of(code: i32) -> Option<Self> {
        let head = Head {
            code,
            opaque: 0,
            oneway: false,
            topic: 0..0,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: 0,
            flag: 0,
            reconsume_times: 0,
            text: 0..0,
        };
        matches!(code, SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE).then_some(Self { head, seen: 0 })
    }

    fn json(&mut self, name: &[u8], json: &mut Json<'_>, arena: &mut Vec<u8>) -> Option<()> {
        match field(self.head.code, name) {
            None => {
                self.unknown()?;
                json.plain()?;
            }
            Some((Field::Properties, bit)) => {
                self.once(bit)?;
                let start = arena.len();
                json.unescaped(arena)?;
                self.head.text = start..arena.len();
            }
            Some((field, bit)) => {
                self.once(bit)?;
                let place = json.plain()?;
                self.take(field, json.text, place)?;
            }
        }
        Some(())
    }

    fn binary(&mut self, name: &[u8], header: &[u8], value: Range<usize>, arena: &mut Vec<u8>) -> Option<()> {
        match field(self.head.code, name) {
            None => self.unknown()?,
            Some((Field::Properties, bit)) => {
                self.once(bit)?;
                let start = arena.len();
                arena.extend_from_slice(header.get(value)?);
                self.head.text = start..arena.len();
            }
            Some((field, bit)) => {
                self.once(bit)?;
                self.take(field, header, value)?;
            }
        }
        Some(())
    }
}
