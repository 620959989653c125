//! Where things are in a record of the log and in an entry of a consume queue, as far as several modules need it.

/// Of a record whose topic has a length of one byte, and of one with two.
pub const MAGIC_V1: i32 = 0xDAA3_20A7_u32 as i32;
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32 as i32;
/// Bits of the system flag that say that a host has an address of 16 bytes.
pub const HOSTS_MASK: i32 = 0x30;
/// Where the body of a record begins whose hosts have addresses of 4 bytes.
pub const BODY: usize = 88;
/// Bytes of an entry: place 8, size 4, tag code 8.
pub const ENTRY: usize = 20;
