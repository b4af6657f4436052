//! Loops as an indented list, before and after normalisation: what `striate describe` shows.

use super::Notation;
use crate::node::{Loop, Node};
use crate::{Datatype, Distribution, Order, TypeError};

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopLine {
    /// Loops above it.
    pub depth: usize,
    /// The loop in words.
    pub text: String,
}

/// Entries of a list shown in full; longer ones are cut.
const SHOWN: usize = 6;

impl Notation {
    /// The loops as written: what each constructor means, before anything is simplified.
    pub fn loops(&self) -> Result<Vec<LoopLine>, TypeError> {
        let mut lines = Vec::new();
        self.list(0, &mut lines)?;
        Ok(lines)
    }

    fn list(&self, depth: usize, lines: &mut Vec<LoopLine>) -> Result<(), TypeError> {
        let mut line = |depth: usize, text: String| lines.push(LoopLine { depth, text });
        let (of, below) = match self {
            Self::Element(element) => {
                let size = element.size();
                let unit = if size == 1 { "byte" } else { "bytes" };
                line(depth, format!("{element} ({size} {unit})"));
                return Ok(());
            }
            Self::Bytes(len) => {
                line(depth, format!("bytes {len}"));
                return Ok(());
            }
            Self::Contiguous { count, of } => {
                line(depth, format!("contig       count {count}"));
                (of, depth + 1)
            }
            Self::Vector { count, block, stride, of } => {
                let bytes = stride.saturating_mul(of.build()?.extent());
                line(
                    depth,
                    format!("vector       count {count}, block {block}, stride {bytes} bytes"),
                );
                (of, depth + 1)
            }
            Self::Hvector { count, block, stride, of } => {
                line(
                    depth,
                    format!("vector       count {count}, block {block}, stride {stride} bytes"),
                );
                (of, depth + 1)
            }
            Self::Indexed { blocks, of } | Self::Hindexed { blocks, of } => {
                let unit = if matches!(self, Self::Indexed { .. }) { "elements" } else { "bytes" };
                let shown = cut(blocks, |block| format!("{} at {}", block.0, block.1));
                line(depth, format!("indexed      {} blocks: {shown} {unit}", blocks.len()));
                (of, depth + 1)
            }
            Self::IndexedBlock { block, displacements: list, of }
            | Self::HindexedBlock { block, offsets: list, of } => {
                let unit =
                    if matches!(self, Self::IndexedBlock { .. }) { "elements" } else { "bytes" };
                let shown = cut(list, ToString::to_string);
                line(
                    depth,
                    format!("blockindexed {} blocks of {block} at {shown} {unit}", list.len()),
                );
                (of, depth + 1)
            }
            Self::Struct { fields } => {
                line(depth, format!("struct       {} fields", fields.len()));
                for (count, offset, of) in fields.iter().take(SHOWN) {
                    lines.push(LoopLine {
                        depth: depth + 1,
                        text: format!("field        {count} at {offset} of"),
                    });
                    of.list(depth + 2, lines)?;
                }
                if fields.len() > SHOWN {
                    let text = format!("… {} more fields", fields.len() - SHOWN);
                    lines.push(LoopLine { depth: depth + 1, text });
                }
                return Ok(());
            }
            Self::Subarray { sizes, subsizes, starts, order, of } => {
                list_dimensions(sizes, *order, of.build()?.extent(), depth, lines, |d| {
                    let (count, start) = (subsizes.get(d), starts.get(d));
                    format!("count {} from {}", count.unwrap_or(&0), start.unwrap_or(&0))
                });
                (of, depth + sizes.len())
            }
            Self::Darray { sizes, distributions, grid, order, of, .. } => {
                list_dimensions(sizes, *order, of.build()?.extent(), depth, lines, |d| {
                    let distribution = distributions.get(d).unwrap_or(&Distribution::None);
                    format!("{distribution} over {} processes", grid.get(d).unwrap_or(&1))
                });
                (of, depth + sizes.len())
            }
            Self::Resized { lb, extent, of } => {
                line(depth, format!("resized      lower bound {lb}, extent {extent}"));
                (of, depth + 1)
            }
            Self::Dup { of } => (of, depth),
        };
        of.list(below, lines)
    }
}

impl Datatype {
    /// The loops of the normal form.
    pub fn loops(&self) -> Vec<LoopLine> {
        let mut lines = Vec::new();
        list(self.root(), 0, &mut lines);
        lines
    }
}

fn list(node: &Node, depth: usize, lines: &mut Vec<LoopLine>) {
    let text = match node.kind() {
        Loop::Bytes => format!("bytes {}", node.size()),
        Loop::Contig { count, .. } => format!("contig       count {count}"),
        Loop::Vector { count, stride, .. } => {
            format!("vector       count {count}, stride {stride} bytes")
        }
        Loop::BlockIndexed { offsets, .. } => {
            let shown = cut(offsets, ToString::to_string);
            format!("blockindexed {} blocks at {shown} bytes", offsets.len())
        }
        Loop::Indexed { blocks, stride, .. } => {
            let shown = cut(blocks, |block| format!("{} at {}", block.len, block.offset));
            let apart = if node.is_list_of_bytes() {
                String::new()
            } else {
                format!(", children {stride} bytes apart")
            };
            format!("indexed      {} blocks: {shown} bytes{apart}", blocks.len())
        }
        Loop::Struct { fields } => format!("struct       {} fields", fields.len()),
    };
    lines.push(LoopLine { depth, text });
    match node.kind() {
        Loop::Bytes => {}
        // The blocks are bytes: there is nothing more to say of them.
        Loop::Indexed { .. } if node.is_list_of_bytes() => {}
        Loop::Contig { child, .. }
        | Loop::Vector { child, .. }
        | Loop::BlockIndexed { child, .. }
        | Loop::Indexed { child, .. } => list(child, depth + 1, lines),
        Loop::Struct { fields } => {
            for field in fields.iter().take(SHOWN) {
                lines.push(LoopLine {
                    depth: depth + 1,
                    text: format!("field        at {} of", field.offset),
                });
                list(&field.child, depth + 2, lines);
            }
            if fields.len() > SHOWN {
                let text = format!("… {} more fields", fields.len() - SHOWN);
                lines.push(LoopLine { depth: depth + 1, text });
            }
        }
    }
}

fn cut<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    let mut shown: Vec<String> = items.iter().take(SHOWN).map(show).collect();
    if items.len() > SHOWN {
        shown.push("…".into());
    }
    shown.join(", ")
}

/// One line per dimension of an array, the slowest varying first; `share` says what is taken of it.
fn list_dimensions(
    sizes: &[u64],
    order: Order,
    extent: i64,
    depth: usize,
    lines: &mut Vec<LoopLine>,
    share: impl Fn(usize) -> String,
) {
    let dimensions: Vec<usize> = match order {
        Order::C => (0..sizes.len()).collect(),
        Order::Fortran => (0..sizes.len()).rev().collect(),
    };
    for (i, &d) in dimensions.iter().enumerate() {
        // Bytes from one index to the next: all that varies faster.
        let stride = dimensions[i + 1..].iter().fold(extent, |stride, &d| {
            i64::try_from(sizes[d]).map_or(i64::MAX, |size| stride.saturating_mul(size))
        });
        let text = format!(
            "vector       {}, stride {stride} bytes (dimension {d} of {})",
            share(d),
            sizes[d]
        );
        lines.push(LoopLine { depth: depth + i, text });
    }
}
