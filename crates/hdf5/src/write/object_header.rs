//! [`HeaderBuilder`]: object headers, version 2.
//!
//! All messages are in one block: its length may have 4 bytes, so a group of 10,000 links needs no
//! continuation. Times are not stored, as netCDF-C does it, hence the same definitions give the
//! same bytes.

use super::dense_attributes::DenseAttributes;
use super::fragment::{BlockId, Fragment};
use super::image::Image;
use super::message::{self, LONGEST};
use crate::model::{MessageFlags, MessageKind, Name};
use crate::{Error, Reason, Result, Structure};

/// The messages of an object.
#[derive(Debug, Default)]
pub(crate) struct HeaderBuilder {
    messages: Vec<(MessageKind, MessageFlags, Fragment)>,
    /// Names and bodies, in the order of creation.
    attributes: Vec<(Name, Fragment)>,
}

impl HeaderBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn message(&mut self, kind: MessageKind, flags: MessageFlags, body: Fragment) {
        self.messages.push((kind, flags, body));
    }

    pub(crate) fn attribute(&mut self, name: Name, body: Fragment) {
        self.attributes.push((name, body));
    }

    /// Encodes the header as a block of an image.
    pub(crate) fn build(mut self, image: &mut Image, block: BlockId) -> Result<()> {
        let refuse = |what, found: usize, limit| {
            let reason = Reason::Limit { what, found: found as u64, limit };
            Error::of(Structure::ObjectHeader, reason)
        };
        let count = u16::try_from(self.attributes.len())
            .ok()
            .filter(|&count| count < message::NEVER)
            .ok_or_else(|| refuse("attributes", self.attributes.len(), 0xfffe))?;
        let attributes = std::mem::take(&mut self.attributes);
        let mut compact = Vec::new();
        let dense = if attributes.iter().any(|(_, body)| body.len() > LONGEST) {
            Some(DenseAttributes::new(attributes).build(image))
        } else {
            compact = attributes;
            None
        };
        let body = message::attribute_info(count, dense);
        self.message(MessageKind::ATTRIBUTE_INFO, MessageFlags::DO_NOT_SHARE, body);

        let mut messages = Fragment::new();
        let head = |out: &mut Fragment, kind: MessageKind, flags: MessageFlags, order, len| {
            out.u8(kind.0 as u8);
            out.u16(len);
            out.u8(flags.0);
            out.u16(order);
        };
        for (kind, flags, body) in &self.messages {
            let len = u16::try_from(body.len())
                .map_err(|_| refuse("bytes of a message", body.len(), 0xffff))?;
            head(&mut messages, *kind, *flags, 0, len);
            messages.append(body);
        }
        for ((_, body), order) in compact.iter().zip(0..) {
            let flags = MessageFlags::default();
            head(&mut messages, MessageKind::ATTRIBUTE, flags, order, body.len() as u16);
            messages.append(body);
        }

        let width = message::width_of(messages.len() as u64);
        let many = compact.len() > 8;
        let mut out = Fragment::with_capacity(messages.len() + 32);
        out.raw(b"OHDR");
        out.u8(2);
        // Order of attributes tracked and indexed; numbers of attributes at which they move.
        out.u8(width.trailing_zeros() as u8 | 0x0c | if many { 0x10 } else { 0 });
        if many {
            out.u16(message::NEVER);
            out.u16(message::NEVER - 1);
        }
        out.sized(messages.len() as u64, width);
        out.append(&messages);
        out.seal(0);
        image.set(block, out);
        Ok(())
    }
}
