//! [`block_shape`]: the shape of the blocks in which a variable moves between two layouts.
//!
//! A filtered chunk is encoded and decoded whole. A block that cuts one of the destination makes
//! its writer read, decode and encode it again for the next block; a block that cuts one of the
//! source makes its reader decode it once for each block. So blocks are whole chunks of one layout,
//! of the destination if both are filtered, and grow within the memory towards the least common
//! multiple of both, first along those dimensions that save the most reads for the memory they
//! take. What memory is left makes blocks longer along the fastest dimensions.

/// How the elements of a variable are stored, in the source or in the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkGrid {
    /// The lengths of chunks; of a contiguous variable, those of what lies together.
    pub(super) shape: Vec<u64>,
    /// Whether a chunk is read and written as a whole.
    pub(super) filtered: bool,
}

/// The shape of blocks of at most so many elements, or of one filtered chunk if that is larger.
pub(super) fn block_shape(
    extent: &[u64],
    source: &ChunkGrid,
    destination: &ChunkGrid,
    most: u64,
) -> Vec<u64> {
    let capped = |grid: &ChunkGrid| -> Vec<u64> {
        grid.shape.iter().zip(extent).map(|(&chunk, &len)| chunk.clamp(1, len.max(1))).collect()
    };
    let (source_shape, destination_shape) = (capped(source), capped(destination));
    let (whole, other) = if source.filtered && !destination.filtered {
        (source_shape, destination_shape)
    } else {
        (destination_shape, source_shape)
    };
    let any_filtered = source.filtered || destination.filtered;
    let mut block =
        if any_filtered || elements(&whole) <= most { whole } else { fitting(&whole, most) };
    // Towards whole chunks of the other layout.
    while let Some((at, longer)) = best_step(extent, &block, &other, most) {
        block[at] = longer;
    }
    // Longer pieces.
    for at in (0..block.len()).rev() {
        let times = (most / elements(&block).max(1)).max(1);
        block[at] = block[at].saturating_mul(times).min(extent[at].max(1));
        if block[at] < extent[at] {
            break;
        }
    }
    block
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product: u64, &len| product.saturating_mul(len))
}

/// As much of a shape as has no more than so many elements, the fastest dimensions first.
fn fitting(shape: &[u64], most: u64) -> Vec<u64> {
    let mut room = most.max(1);
    let mut fitting = vec![1; shape.len()];
    for at in (0..shape.len()).rev() {
        fitting[at] = shape[at].min(room);
        room /= fitting[at];
    }
    fitting
}

/// How often the chunks of a grid along one dimension are met by blocks, altogether: each once, and
/// once more for each border of blocks within it.
fn met(extent: u64, block: u64, chunk: u64) -> u64 {
    let chunks = extent.div_ceil(chunk);
    let borders = (extent - 1) / block;
    // A border at a multiple of both is within no chunk.
    let common = (extent - 1) / least_common(block, chunk);
    chunks + borders - common
}

/// A longer block along one dimension.
struct Step {
    at: usize,
    longer: u64,
    /// How many times fewer chunks are met.
    saved: f64,
    /// The same for each doubling of the memory.
    worth: f64,
}

impl Step {
    fn is_better(&self, known: &Self) -> bool {
        const SIMILAR: f64 = 0.1;
        self.worth > known.worth + SIMILAR
            || (self.worth > known.worth - SIMILAR && self.saved > known.saved)
    }
}

/// The dimension along which a longer block saves the most for the memory it takes, and its new
/// length.
fn best_step(extent: &[u64], block: &[u64], other: &[u64], most: u64) -> Option<(usize, u64)> {
    let room = most / elements(block).max(1);
    let mut best: Option<Step> = None;
    for at in (0..block.len()).rev() {
        if extent[at] == 0 {
            return None;
        }
        let now = met(extent[at], block[at], other[at]);
        let fewest = extent[at].div_ceil(other[at]);
        if now <= fewest {
            continue;
        }
        let common = least_common(block[at], other[at]).min(extent[at]);
        let possible = [2, 3, 5].map(|times| block[at].saturating_mul(times));
        let largest = block[at].saturating_mul(room);
        for longer in possible.into_iter().chain([common, largest]) {
            let longer = longer.min(extent[at]);
            if longer <= block[at] || longer.div_ceil(block[at]) > room {
                continue;
            }
            let saved = now as f64 / met(extent[at], longer, other[at]) as f64;
            if saved <= 1.0 {
                continue;
            }
            // Of steps that are about as good, the one that saves most.
            let worth = saved.ln() / (longer as f64 / block[at] as f64).ln();
            let step = Step { at, longer, saved, worth };
            if best.as_ref().is_none_or(|known| step.is_better(known)) {
                best = Some(step);
            }
        }
    }
    best.map(|step| (step.at, step.longer))
}

fn least_common(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(shape: &[u64], filtered: bool) -> ChunkGrid {
        ChunkGrid { shape: shape.to_vec(), filtered }
    }

    /// How often blocks meet chunks, counted one by one: the twin of what the module estimates.
    fn meetings(extent: &[u64], block: &[u64], chunk: &[u64]) -> u64 {
        let along = |at: usize| {
            let mut all = 0;
            let mut from = 0;
            while from < extent[at] {
                let to = (from + block[at]).min(extent[at]);
                all += (to - 1) / chunk[at] - from / chunk[at] + 1;
                from = to;
            }
            all
        };
        (0..extent.len()).map(along).product()
    }

    #[test]
    fn meetings_are_as_counted() {
        for extent in 1..40 {
            for block in 1..=extent {
                for chunk in 1..=extent {
                    let counted = meetings(&[extent], &[block], &[chunk]);
                    assert_eq!(met(extent, block, chunk), counted, "{extent} {block} {chunk}");
                }
            }
        }
    }

    #[test]
    fn time_series_from_maps_read_few_chunks_again() {
        let extent = [1000, 500, 500];
        let (maps, series) = (grid(&[1, 500, 500], true), grid(&[1000, 10, 10], true));
        let block = block_shape(&extent, &maps, &series, 16 << 20);
        assert!(elements(&block) <= 16 << 20, "{block:?}");
        assert!(
            block.iter().zip(&series.shape).all(|(block, chunk)| block % chunk == 0),
            "{block:?}"
        );
        let reads = meetings(&extent, &block, &maps.shape);
        assert!(reads <= 17 * 1000, "{reads} reads of 1000 chunks by blocks of {block:?}");
        // And back.
        let block = block_shape(&extent, &series, &maps, 16 << 20);
        let reads = meetings(&extent, &block, &series.shape);
        assert!(block[1..] == [500, 500] && reads <= 17 * 2500, "{reads} by {block:?}");
        // With memory for all of it, each chunk is read once.
        let block = block_shape(&extent, &maps, &series, 250 << 20);
        assert_eq!(meetings(&extent, &block, &maps.shape), 1000);
    }

    #[test]
    fn common_multiples_are_found() {
        let (source, destination) = (grid(&[6, 10], true), grid(&[4, 15], true));
        let block = block_shape(&[1200, 3000], &source, &destination, 12 * 30);
        assert_eq!(block, [12, 30]);
        // The same chunks: as many as fit, along the fastest dimension.
        let block = block_shape(&[1200, 3000], &source, &source, 6 * 10 * 20);
        assert_eq!(block, [6, 200]);
    }

    #[test]
    fn blocks_are_bounded_and_whole() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..3000 {
            let rank = 1 + draw(4) as usize;
            let extent: Vec<u64> = (0..rank).map(|_| 1 + draw(60)).collect();
            let mut chunks = || {
                let shape = extent.iter().map(|&len| 1 + draw(len)).collect();
                ChunkGrid { shape, filtered: draw(2) == 0 }
            };
            let (source, destination) = (chunks(), chunks());
            let most = 1 + draw(5000);
            let block = block_shape(&extent, &source, &destination, most);
            let whole = if destination.filtered { &destination } else { &source };
            let chunk = if whole.filtered { elements(&whole.shape) } else { 1 };
            assert!(elements(&block) <= most.max(chunk), "{block:?}");
            for at in 0..rank {
                assert!((1..=extent[at]).contains(&block[at]));
                if whole.filtered {
                    let is_whole =
                        block[at].is_multiple_of(whole.shape[at]) || block[at] == extent[at];
                    assert!(is_whole, "{block:?} of {extent:?}: {source:?} {destination:?}");
                }
            }
        }
    }

    #[test]
    fn long_dimensions_take_no_time() {
        let extent = [1 << 40, 3];
        let block = block_shape(&extent, &grid(&[7, 3], true), &grid(&[1000, 1], true), 1 << 24);
        assert!(elements(&block) <= 1 << 24, "{block:?}");
    }
}
