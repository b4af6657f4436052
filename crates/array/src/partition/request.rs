//! [`Request`]: a hyperslab of a variable of a partition, as ranks send it to delegates, and queues
//! of requests.
//!
//! A request has the size of its dimensions, whatever the number of elements. The bytes of the
//! requests of a queue form one stream, which is cut into rounds at element boundaries.

use std::ops::Range;

use super::selection::{Hyperslab, StreamSelection};

/// A hyperslab of a variable of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) partition: usize,
    /// Index of the variable in the partition.
    pub(crate) variable: usize,
    pub(crate) hyperslab: Hyperslab,
    /// Bytes of an element; not sent, the delegate takes it from the header.
    pub(crate) size: u64,
}

/// A request of this rank, with the positions of its bytes in the stream of an access.
#[derive(Clone, Debug)]
pub(crate) struct MappedRequest {
    pub(crate) request: Request,
    /// Number of the access.
    pub(crate) access: usize,
    pub(crate) selection: StreamSelection,
}

/// A request, with or without its access.
pub(crate) trait HasRequest {
    fn request(&self) -> &Request;
}

impl HasRequest for Request {
    fn request(&self) -> &Request {
        self
    }
}

impl HasRequest for MappedRequest {
    fn request(&self) -> &Request {
        &self.request
    }
}

/// Requests whose bytes form one stream, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct RequestQueue<T> {
    pub(crate) items: Vec<T>,
    /// Start of each request in the stream, and the end of the last.
    starts: Vec<u64>,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        Self { items: Vec::new(), starts: vec![0] }
    }
}

impl<T: HasRequest> RequestQueue<T> {
    pub(crate) fn push(&mut self, item: T) {
        let request = item.request();
        // A sum of sizes in memory, which does not reach the limit.
        let bytes = request.hyperslab.elements().saturating_mul(request.size);
        self.starts.push(self.bytes().saturating_add(bytes));
        self.items.push(item);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The range of the stream that moves in a round of `piece` bytes, cut at element boundaries.
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

    /// The requests that overlap a range of the stream, and the range of elements of each.
    pub(crate) fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (&T, Range<u64>)> {
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

/// Requests as bytes: numbers of 8 bytes, little-endian.
pub(crate) fn encode<T: HasRequest>(items: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
    for item in items {
        let Request { partition, variable, hyperslab, .. } = item.request();
        add(*partition as u64);
        add(*variable as u64);
        add(hyperslab.count.len() as u64);
        for list in [&hyperslab.start, &hyperslab.count, &hyperslab.stride] {
            for &number in list {
                add(number);
            }
        }
    }
    bytes
}

/// Decodes requests of another rank; `None` if the bytes are not valid. The size of an element is
/// set to 1.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Request>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
    let mut all = Vec::new();
    while let Some(partition) = words.next() {
        let variable = words.next()?;
        let rank = usize::try_from(words.next()?).ok().filter(|&rank| rank <= words.len() / 3)?;
        let mut list = || -> Vec<u64> { words.by_ref().take(rank).collect() };
        let hyperslab = Hyperslab { start: list(), count: list(), stride: list() };
        let (partition, variable) = (partition as usize, variable as usize);
        all.push(Request { partition, variable, hyperslab, size: 1 });
    }
    rest.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let hyperslab = proptest::collection::vec((0u64..9, 1u64..6, 1u64..3), 0..4);
        let size = prop_oneof![Just(1u64), Just(2), Just(4), Just(8)];
        let one =
            (0usize..5, 0usize..5, hyperslab, size).prop_map(|(partition, variable, all, size)| {
                let hyperslab = Hyperslab {
                    start: all.iter().map(|it| it.0).collect(),
                    count: all.iter().map(|it| it.1).collect(),
                    stride: all.iter().map(|it| it.2).collect(),
                };
                Request { partition, variable, hyperslab, size }
            });
        proptest::collection::vec(one, 0..6)
    }

    proptest! {
        #[test]
        fn encoded_requests_decode_to_the_same(requests in requests(), cut in 0usize..1000) {
            let bytes = encode(&requests);
            let mut expected = requests.clone();
            for request in &mut expected {
                request.size = 1;
            }
            prop_assert_eq!(decode(&bytes), Some(expected));
            // A truncated message has fewer requests, or is refused.
            let cut = cut % (bytes.len() + 1);
            prop_assert!(decode(&bytes[..cut]).is_none_or(|some| some.len() <= requests.len()));
        }

        #[test]
        fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn rounds_move_every_element_once(requests in requests(), piece in 8u64..200) {
            let mut queue = RequestQueue::default();
            for request in &requests {
                queue.push(request.clone());
            }
            let total: u64 = requests.iter().map(|it| it.hyperslab.elements() * it.size).sum();
            prop_assert_eq!(queue.bytes(), total);
            let mut next = 0;
            let mut moved = Vec::new();
            for round in 0..total.div_ceil(piece) {
                let range = queue.round(round, piece);
                prop_assert_eq!(range.start, next);
                next = range.end;
                prop_assert!(range.end - range.start < piece + 8);
                let mut bytes = 0;
                for (item, elements) in queue.overlapping(range.clone()) {
                    bytes += (elements.end - elements.start) * item.size;
                    moved.extend(elements.map(|n| (item.clone(), n)));
                }
                prop_assert_eq!(bytes, range.end - range.start);
            }
            prop_assert_eq!(next, total);
            let numbers = |it: &Request| 0..it.hyperslab.elements();
            let each = requests.iter().flat_map(|it| numbers(it).map(|n| (it.clone(), n)));
            prop_assert!(moved.into_iter().eq(each));
        }
    }
}
