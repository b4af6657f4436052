//! What ranks ask of each other: elements of a partition's variable, described, never listed.

use std::ops::Range;

use super::selection::{Extent, Selection};

/// Elements of a variable of a partition, in its own numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) partition: usize,
    /// Which of the partition's variables.
    pub(crate) variable: usize,
    pub(crate) extent: Extent,
    /// Bytes of an element; whoever receives the request looks it up.
    pub(crate) size: u64,
}

/// A request, and where its bytes lie in this rank's memory.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) request: Request,
    /// Which of the accesses.
    pub(crate) access: usize,
    pub(crate) selection: Selection,
}

/// Something whose bytes travel.
pub(crate) trait Item {
    fn request(&self) -> &Request;
}

impl Item for Request {
    fn request(&self) -> &Request {
        self
    }
}

impl Item for Wanted {
    fn request(&self) -> &Request {
        &self.request
    }
}

/// What one rank has for one group: requests whose bytes follow each other in one stream.
#[derive(Clone, Debug)]
pub(crate) struct Queue<T> {
    pub(crate) items: Vec<T>,
    /// Where each begins, and where the last ends.
    starts: Vec<u64>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: Vec::new(), starts: vec![0] }
    }
}

impl<T: Item> Queue<T> {
    pub(crate) fn push(&mut self, item: T) {
        let request = item.request();
        // Bytes of memory, of which there are not so many.
        let bytes = request.extent.elements().saturating_mul(request.size);
        self.starts.push(self.bytes().saturating_add(bytes));
        self.items.push(item);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The part of the stream that moves in a round: pieces end where elements do.
    pub(crate) fn round(&self, round: u64, piece: u64) -> Range<u64> {
        let cut = |at: u64| {
            let number = self.starts.partition_point(|&start| start <= at);
            match self.items.get(number.wrapping_sub(1)) {
                Some(item) => {
                    let start = self.starts[number - 1];
                    at - (at - start) % item.request().size.max(1)
                }
                None => self.bytes(),
            }
        };
        let begin = round.saturating_mul(piece);
        cut(begin)..cut(begin.saturating_add(piece))
    }

    /// The items that a part of the stream meets, and which of their elements.
    pub(crate) fn meet(&self, range: Range<u64>) -> impl Iterator<Item = (&T, Range<u64>)> {
        let first = self.starts.partition_point(|&start| start <= range.start).saturating_sub(1);
        let numbers = first..self.items.len();
        numbers.take_while(move |&n| self.starts[n] < range.end).map(move |n| {
            let (item, start) = (&self.items[n], self.starts[n]);
            let size = item.request().size.max(1);
            let low = range.start.max(start) - start;
            let high = range.end.min(self.starts[n + 1]) - start;
            (item, low / size..high / size)
        })
    }
}

/// Requests as they travel: numbers, eight bytes each.
pub(crate) fn encode<T: Item>(items: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
    for item in items {
        let Request { partition, variable, extent, .. } = item.request();
        add(*partition as u64);
        add(*variable as u64);
        add(extent.count.len() as u64);
        for list in [&extent.start, &extent.count, &extent.stride] {
            for &number in list {
                add(number);
            }
        }
    }
    bytes
}

/// Requests of another rank; `None` if they are no such thing. Sizes are not known yet.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Request>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
    let mut all = Vec::new();
    while let Some(partition) = words.next() {
        let variable = words.next()?;
        let rank = usize::try_from(words.next()?).ok().filter(|&rank| rank <= words.len() / 3)?;
        let mut list = || -> Vec<u64> { words.by_ref().take(rank).collect() };
        let extent = Extent { start: list(), count: list(), stride: list() };
        let (partition, variable) = (partition as usize, variable as usize);
        all.push(Request { partition, variable, extent, size: 1 });
    }
    rest.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let extent = proptest::collection::vec((0u64..9, 1u64..6, 1u64..3), 0..4);
        let size = prop_oneof![Just(1u64), Just(2), Just(4), Just(8)];
        let one =
            (0usize..5, 0usize..5, extent, size).prop_map(|(partition, variable, all, size)| {
                let extent = Extent {
                    start: all.iter().map(|it| it.0).collect(),
                    count: all.iter().map(|it| it.1).collect(),
                    stride: all.iter().map(|it| it.2).collect(),
                };
                Request { partition, variable, extent, size }
            });
        proptest::collection::vec(one, 0..6)
    }

    proptest! {
        #[test]
        fn they_travel(requests in requests(), cut in 0usize..1000) {
            let bytes = encode(&requests);
            let mut expected = requests.clone();
            for request in &mut expected {
                request.size = 1;
            }
            prop_assert_eq!(decode(&bytes), Some(expected));
            // What was cut is less, or nothing.
            let cut = cut % (bytes.len() + 1);
            prop_assert!(decode(&bytes[..cut]).is_none_or(|some| some.len() <= requests.len()));
        }

        #[test]
        fn noise_is_no_request(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn rounds_move_every_element_once(requests in requests(), piece in 8u64..200) {
            let mut queue = Queue::default();
            for request in &requests {
                queue.push(request.clone());
            }
            let total: u64 = requests.iter().map(|it| it.extent.elements() * it.size).sum();
            prop_assert_eq!(queue.bytes(), total);
            let mut next = 0;
            let mut moved = Vec::new();
            for round in 0..total.div_ceil(piece) {
                let range = queue.round(round, piece);
                prop_assert_eq!(range.start, next);
                next = range.end;
                prop_assert!(range.end - range.start < piece + 8);
                let mut bytes = 0;
                for (item, elements) in queue.meet(range.clone()) {
                    bytes += (elements.end - elements.start) * item.size;
                    moved.extend(elements.map(|n| (item.clone(), n)));
                }
                prop_assert_eq!(bytes, range.end - range.start);
            }
            prop_assert_eq!(next, total);
            let each = requests.iter().flat_map(|it| (0..it.extent.elements()).map(|n| (it.clone(), n)));
            prop_assert!(moved.into_iter().eq(each));
        }
    }
}
