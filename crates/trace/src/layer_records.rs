//! [`LayerRecords`]: an iterator over the calls of layers in a trace.

use std::collections::VecDeque;

use crate::block::{BlockInfo, Content};
use crate::layer_codec::{LayerDecoder, LayerRecord};
use crate::reader::{Damage, Trace, until_damage};

/// Calls of layers as they are in the file: in the order in which they ended. After damage there is
/// nothing more.
#[derive(Debug)]
pub struct LayerRecords {
    trace: Trace,
    blocks: VecDeque<u64>,
    decoder: Option<(u64, LayerDecoder)>,
    ended: bool,
}

impl LayerRecords {
    pub(crate) fn new(trace: &Trace, blocks: impl IntoIterator<Item = BlockInfo>) -> Self {
        let blocks = blocks.into_iter().map(|block| block.offset).collect();
        Self { trace: trace.clone(), blocks, decoder: None, ended: false }
    }

    fn step(&mut self) -> Result<Option<LayerRecord>, Damage> {
        loop {
            if let Some((at, decoder)) = &mut self.decoder {
                let wrong = |()| Damage::new(*at, "the block has an unknown record");
                if let Some(record) = decoder.next().map_err(wrong)? {
                    return Ok(Some(record));
                }
                self.decoder = None;
            }
            let Some(at) = self.blocks.pop_front() else { return Ok(None) };
            match self.trace.block_at(at)? {
                Some((header, bytes)) if header.content == Content::Layer => {
                    self.decoder = Some((at, LayerDecoder::new(header, bytes)));
                }
                _ => return Err(Damage::new(at, "calls are missing")),
            }
        }
    }
}

impl Iterator for LayerRecords {
    type Item = Result<LayerRecord, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step();
        until_damage(&mut self.ended, step)
    }
}
