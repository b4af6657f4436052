//! [`DataExchange`]: messages with data between ranks, in pieces, with a limit on the bytes under
//! way.
//!
//! A rank sends and receives at the same time, so two ranks never wait to send to each other. A
//! piece counts as under way until its receiver acknowledges it: without that, message libraries
//! buffer short ones, however many they are.

use std::ops::Range;

use striate_comm::{Comm, CommError, Request};

/// Messages with data.
const PIECE: u32 = 1;
/// Acknowledgements of pieces.
const ACKNOWLEDGE: u32 = 2;

/// Pieces are not made smaller than this in order to interleave transfers.
const SHORT: u64 = 32 << 10;

/// Bytes that go to or come from another rank, as positions in the stream of the access that they
/// belong to.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// The other rank.
    pub(crate) rank: usize,
    /// Bytes that are still to be moved.
    pub(crate) range: Range<u64>,
    /// The end that the receiver expects; it is not reached at the end of the file, or if the
    /// sender failed.
    pub(crate) expected: u64,
}

/// The purpose of a request under way.
enum Purpose {
    Sending,
    /// The acknowledgement of a piece of so many bytes.
    Acknowledged(u64),
    /// A piece of an incoming transfer.
    Piece(usize),
}

/// See the module.
pub(crate) struct DataExchange<'a> {
    comm: &'a dyn Comm,
    /// Bytes of a piece, at most.
    piece: u64,
    /// Bytes under way, at most.
    limit: u64,
    under_way: u64,
    requests: Vec<Request>,
    purposes: Vec<Purpose>,
}

impl<'a> DataExchange<'a> {
    /// `limit` bytes may be under way from this rank.
    pub(crate) fn new(comm: &'a dyn Comm, limit: u64) -> Self {
        Self {
            comm,
            piece: (limit / 8).max(limit.min(SHORT)),
            limit,
            under_way: 0,
            requests: Vec::new(),
            purposes: Vec::new(),
        }
    }

    /// Sends all outgoing bytes, and receives all incoming ones. `pack` fills a piece of an
    /// outgoing transfer and returns whether it could; `unpack` gets those of an incoming transfer,
    /// and an empty one where the sender has no more.
    pub(crate) fn run(
        &mut self,
        outgoing: &mut [Transfer],
        incoming: &mut [Transfer],
        mut pack: impl FnMut(&Transfer, &mut [u8]) -> bool,
        mut unpack: impl FnMut(&Transfer, &[u8]),
    ) -> Result<(), CommError> {
        for (transfer, from) in incoming.iter().enumerate() {
            self.expect(transfer, from)?;
        }
        let mut left = incoming.len();
        // In turn, so that no receiver gets everything first.
        let mut turn = 0;
        let mut to_send = outgoing.len();
        loop {
            while to_send > 0 && (self.under_way == 0 || self.under_way + self.piece <= self.limit)
            {
                turn = (turn + 1) % outgoing.len();
                let transfer = &mut outgoing[turn];
                if transfer.expected == transfer.range.start {
                    continue;
                }
                let len = self.piece.min(transfer.range.end - transfer.range.start);
                let mut message = vec![0; len as usize];
                if len == 0 || !pack(transfer, &mut message) {
                    // An empty piece: there is no more.
                    message.clear();
                    transfer.expected = transfer.range.start;
                }
                transfer.range.start += message.len() as u64;
                to_send -= usize::from(transfer.expected == transfer.range.start);
                self.send(transfer.rank, message)?;
            }
            if to_send == 0 && left == 0 {
                return Ok(());
            }
            let (index, bytes) = self.comm.wait_any(&mut self.requests)?;
            match self.purposes.remove(index) {
                Purpose::Sending => {}
                Purpose::Acknowledged(bytes) => self.under_way -= bytes,
                Purpose::Piece(number) => {
                    let transfer = &mut incoming[number];
                    unpack(transfer, &bytes);
                    self.push(
                        self.comm.send(transfer.rank, ACKNOWLEDGE, Vec::new())?,
                        Purpose::Sending,
                    );
                    transfer.range.start += bytes.len() as u64;
                    if bytes.is_empty() || transfer.range.is_empty() {
                        left -= 1;
                    } else {
                        self.expect(number, &incoming[number])?;
                    }
                }
            }
        }
    }

    /// Waits until everything is acknowledged.
    pub(crate) fn finish(self) -> Result<(), CommError> {
        self.requests.into_iter().try_for_each(|request| self.comm.wait(request).map(drop))
    }

    fn expect(&mut self, number: usize, transfer: &Transfer) -> Result<(), CommError> {
        let request = self.comm.receive(transfer.rank, PIECE, self.piece as usize)?;
        self.push(request, Purpose::Piece(number));
        Ok(())
    }

    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<(), CommError> {
        let bytes = message.len() as u64;
        self.under_way += bytes;
        let taken = self.comm.receive(to, ACKNOWLEDGE, 0)?;
        self.push(taken, Purpose::Acknowledged(bytes));
        let request = self.comm.send(to, PIECE, message)?;
        self.push(request, Purpose::Sending);
        Ok(())
    }

    fn push(&mut self, request: Request, purpose: Purpose) {
        self.requests.push(request);
        self.purposes.push(purpose);
    }
}
