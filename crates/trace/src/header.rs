//! [`Header`]: the process that a trace is of, and when it began.

use std::path::PathBuf;

use striate_process::Origin;

use crate::varint::{Input, push, push_bytes};

/// The process that recorded a trace, and when that began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The process.
    pub origin: Origin,
    /// Its current directory when the trace began.
    pub directory: PathBuf,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// The same moment in nanoseconds of the monotonic clock, to which times refer. Processes of
    /// one host have one.
    pub clock: u64,
    /// What the configuration calls the stage that recorded it.
    pub label: String,
    /// The place of that stage in its stack, from 0.
    pub place: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.origin.process.into());
        push(&mut bytes, self.origin.parent.into());
        push(&mut bytes, self.origin.rank.map_or(0, |rank| u64::from(rank) + 1));
        push_bytes(&mut bytes, self.origin.host.as_bytes());
        push(&mut bytes, self.origin.command.len() as u64);
        for word in &self.origin.command {
            push_bytes(&mut bytes, word.as_bytes());
        }
        push_bytes(&mut bytes, self.directory.as_os_str().as_encoded_bytes());
        push(&mut bytes, self.began);
        push(&mut bytes, self.clock);
        push_bytes(&mut bytes, self.label.as_bytes());
        push(&mut bytes, self.place.into());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Self::take(&mut Input(bytes))
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let text = |input: &mut Input<'_>| {
            input.bytes().map(|text| String::from_utf8_lossy(text).into_owned())
        };
        let mut origin = Origin {
            process: input.narrow()?,
            parent: input.narrow()?,
            rank: input.narrow()?.checked_sub(1),
            host: text(input)?,
            command: Vec::new(),
        };
        for _ in 0..input.number()? {
            origin.command.push(text(input)?);
        }
        // What later versions add comes after it: `zero`.
        Some(Self {
            origin,
            directory: crate::decoder::path(input.bytes()?),
            began: input.number()?,
            clock: input.number()?,
            label: text(input)?,
            place: input.narrow()?,
        })
    }
}

/// What may follow a header: time 0 of the recording that the trace was cut from, by the clock of
/// the trace.
pub(crate) fn encode_zero(bytes: &mut Vec<u8>, zero: Option<i64>) {
    if let Some(zero) = zero {
        push(bytes, 1);
        push(bytes, crate::varint::fold(zero));
    }
}

/// Time 0, if it follows a header.
pub(crate) fn decode_zero(content: &[u8]) -> Option<i64> {
    let mut input = Input(content);
    Header::take(&mut input)?;
    (input.number()? == 1).then(|| input.signed()).flatten()
}
