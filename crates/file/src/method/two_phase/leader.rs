//! [`Leader`]: the messages, windows and steps of a group in a two-phase call; see
//! [`super::between_groups`].
//!
//! It has two independent parts: the *aggregator* of a domain, which requests or sends bytes window
//! by window; and the *client* of other aggregators, which answers them for the ranks of its group.

use std::collections::VecDeque;
use std::ops::Range;

use striate_comm::{CommError, Request};
use striate_datatype::Boundary;

use super::FirstError;
use super::between_groups::{GroupsCall, pop_while};
use super::descriptions::Descriptions;
use super::io_queue::{IoQueue, WindowDone, WindowIo};
use super::node_work::{AS_IN_FILE, RankStep};
use super::window_schedule::WindowSchedule;
use crate::access::{FileSide, put_stream, take_stream};
use crate::{Direction, ErrorKind, FileError};

/// Messages with data.
const DATA: u32 = 1;
/// Requests for data, in a write; acknowledgements of data, in a read.
const CONTROL: u32 = 2;

/// Receives for data of one aggregator in a read: the next message moves while one is unpacked.
const AHEAD: usize = 2;

/// The number in a message that names no window.
const NO_WINDOW: u64 = u64::MAX;

/// The header of requests and of data that is read: the number of a window, the bytes that the file
/// has of it, and flags.
struct WindowHeader {
    window: u64,
    got: u64,
    /// The messages with headers that the group has got before.
    number: u64,
    /// No other window follows for this group.
    is_last: bool,
    /// The aggregator's group has failed.
    has_failed: bool,
}

/// Bytes of a header.
const HEADER: usize = 32;

impl WindowHeader {
    fn to_bytes(&self) -> Vec<u8> {
        let flags = u64::from(self.is_last) | u64::from(self.has_failed) << 1;
        [self.window, self.got, self.number, flags]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }

    /// The header, and what follows it. A message that is too short says that its sender has
    /// failed.
    fn split(bytes: &[u8]) -> (Self, &[u8]) {
        let (numbers, rest) = bytes.split_at(bytes.len().min(HEADER));
        let (words, _) = numbers.as_chunks::<8>();
        let word = |i: usize| words.get(i).map_or(NO_WINDOW, |word| u64::from_le_bytes(*word));
        let flags = word(3);
        let (is_last, has_failed) = (flags & 1 != 0, flags & 2 != 0);
        (Self { window: word(0), got: word(1), number: word(2), is_last, has_failed }, rest)
    }
}

/// A group with bytes in this aggregator's domain.
struct Peer<'c> {
    leader: usize,
    is_own: bool,
    ranks: Vec<(usize, &'c FileSide)>,
    /// Bytes in open windows that have not been moved.
    busy: u64,
    /// Bytes under way to or from it.
    under_way: u64,
    /// Windows with bytes of this group that were opened, and of which it does not know.
    untold: u64,
    /// Messages with headers that were sent to it.
    sent: u64,
}

/// Another aggregator, from which something may come.
struct AggregatorLink {
    group: usize,
    /// Messages with headers that have come. Long ones may be complete in another order than they
    /// were sent in.
    received: u64,
    /// How many there are, once the last one has come.
    total: Option<u64>,
}

/// The bytes of a group in a window.
struct Part {
    peer: usize,
    /// Of each of its ranks, as positions in the stream of its access.
    ranges: Vec<Range<u64>>,
    bytes: u64,
}

/// A window in a slot.
struct OpenWindow {
    window: u64,
    range: Range<u64>,
    got: u64,
    parts: Vec<Part>,
    /// Parts that have not been moved.
    pending: usize,
}

/// The purpose of a message under way.
#[derive(Clone, Copy)]
enum Purpose {
    Sent,
    /// The next request of an aggregator.
    Request {
        aggregator: usize,
    },
    /// Requested data for a part of a window.
    Part {
        slot: usize,
        part: usize,
    },
    /// The acknowledgement of data that was sent to a peer.
    Acknowledged {
        peer: usize,
        bytes: u64,
    },
    /// The next data of an aggregator.
    Data {
        aggregator: usize,
    },
}

/// What a group is to do next, and what follows when all its ranks have.
enum Task {
    Put { slot: usize },
    Pack { to: usize, bytes: u64 },
    Take { slot: usize },
    Unpack { from: usize, data: Vec<u8> },
}

/// A task that waits for room in the list of steps and for a staging buffer.
struct QueuedTask {
    task: Task,
    /// Without the staging buffer.
    step: RankStep,
    offsets: Vec<u64>,
}

/// A task whose step was published.
struct PublishedTask {
    number: u64,
    task: Task,
    staging: Option<usize>,
    /// The message, in a group that needs no staging.
    message: Vec<u8>,
}

/// See the module.
pub(super) struct Leader<'c> {
    call: &'c GroupsCall<'c>,
    group: usize,
    direction: Direction,
    own: &'c [FileSide],
    io: &'c IoQueue,
    requests: Vec<Request>,
    purposes: Vec<Purpose>,
    // ---- aggregator ----
    schedule: Option<WindowSchedule<'c>>,
    peers: Vec<Peer<'c>>,
    slots: Vec<Option<OpenWindow>>,
    /// Parts to be requested or sent: slot and number.
    waiting: VecDeque<(usize, usize)>,
    under_way: u64,
    // ---- client ----
    aggregators: Vec<AggregatorLink>,
    queued: VecDeque<QueuedTask>,
    published: VecDeque<PublishedTask>,
    free_staging: Vec<usize>,
}

impl<'c> Leader<'c> {
    pub(super) fn new(
        call: &'c GroupsCall<'c>,
        group: usize,
        direction: Direction,
        descriptions: &'c Descriptions,
        io: &'c IoQueue,
    ) -> Self {
        let groups = call.groups;
        let mut peers = Vec::new();
        let mut schedule = None;
        if let Some(aggregator) = groups.aggregator[group] {
            // In the order of their distance, so that aggregators do not all begin with the same
            // one.
            for other in &descriptions.others {
                let ranks = other.ranks.iter().map(|(rank, file)| (*rank, file)).collect();
                let leader = groups.leader(other.group);
                peers.push(Peer {
                    leader,
                    is_own: false,
                    ranks,
                    busy: 0,
                    under_way: 0,
                    untold: 0,
                    sent: 0,
                });
            }
            let ranks: Vec<_> =
                groups.ranks[group].iter().copied().zip(&descriptions.own).collect();
            peers.push(Peer {
                leader: groups.leader(group),
                is_own: true,
                ranks,
                busy: 0,
                under_way: 0,
                untold: 0,
                sent: 0,
            });
            let files = |peer: &Peer<'c>| peer.ranks.iter().map(|(_, file)| *file).collect();
            schedule = Some(WindowSchedule::new(call.domains, aggregator, peers.iter().map(files)));
        }
        let sizes = call.work.sizes();
        let slots = if schedule.is_some() { sizes.slots } else { 0 };
        Self {
            call,
            group,
            direction,
            own: &descriptions.own,
            io,
            requests: Vec::new(),
            purposes: Vec::new(),
            schedule,
            peers,
            slots: (0..slots).map(|_| None).collect(),
            waiting: VecDeque::new(),
            under_way: 0,
            aggregators: descriptions
                .aggregators
                .iter()
                .map(|&group| AggregatorLink { group, received: 0, total: None })
                .collect(),
            queued: VecDeque::new(),
            published: VecDeque::new(),
            free_staging: (0..sizes.staging.max(1)).rev().collect(),
        }
    }

    /// Ranks of this group.
    fn ranks(&self) -> usize {
        self.own.len()
    }

    /// Posts the first receives, and tells groups that turn out to have no bytes here.
    pub(super) fn begin(&mut self) -> Result<(), CommError> {
        let aggregators: Vec<usize> = self.aggregators.iter().map(|link| link.group).collect();
        for aggregator in aggregators {
            match self.direction {
                Direction::Write => self.expect_request(aggregator)?,
                Direction::Read => {
                    for _ in 0..AHEAD {
                        self.expect_data(aggregator)?;
                    }
                }
            }
        }
        for peer in 0..self.peers.len() {
            let needs = self.schedule.as_ref().is_some_and(|schedule| schedule.needs_more(peer));
            if !needs && !self.peers[peer].is_own {
                let header = WindowHeader {
                    window: NO_WINDOW,
                    got: 0,
                    number: 0,
                    is_last: true,
                    has_failed: false,
                };
                let tag = if self.direction.is_write() { CONTROL } else { DATA };
                self.send(self.peers[peer].leader, tag, header.to_bytes())?;
            }
        }
        Ok(())
    }

    /// Does what can be done now; returns whether there was anything.
    pub(super) fn progress(&mut self, first_error: &FirstError<'_>) -> Result<bool, CommError> {
        let mut moved = false;
        for done in self.io.take_done() {
            self.window_done(done);
            moved = true;
        }
        while let Some((index, bytes)) = self.call.comm.test_any(&mut self.requests)? {
            let purpose = self.purposes.remove(index);
            self.arrived(purpose, bytes, first_error)?;
            moved = true;
        }
        let done = self.call.work.done_by_all(self.ranks());
        while let Some(task) = pop_while(&mut self.published, |task| task.number < done) {
            self.task_done(task)?;
            moved = true;
        }
        while self.open_window() {
            moved = true;
        }
        while self.move_part(first_error)? {
            moved = true;
        }
        while self.publish() {
            moved = true;
        }
        Ok(moved)
    }

    /// Whether all messages of this call have been sent and received.
    pub(super) fn is_done(&self) -> bool {
        let aggregates = self.slots.iter().any(Option::is_some)
            || (0..self.peers.len())
                .any(|peer| self.schedule.as_ref().is_some_and(|all| all.needs_more(peer)));
        !aggregates
            && self.aggregators.is_empty()
            && self.queued.is_empty()
            && self.published.is_empty()
            && self.requests.is_empty()
    }

    /// Tells the ranks of the group that the call is over, if there is room; returns whether.
    pub(super) fn end(&self) -> bool {
        let has_room = self.call.work.has_room(self.ranks());
        if has_room {
            self.call.work.publish(RankStep::End, &vec![0; self.ranks()]);
        }
        has_room
    }

    fn push(&mut self, request: Request, purpose: Purpose) {
        self.requests.push(request);
        self.purposes.push(purpose);
    }

    fn send(&mut self, to: usize, tag: u32, message: Vec<u8>) -> Result<(), CommError> {
        let request = self.call.comm.send(to, tag, message)?;
        self.push(request, Purpose::Sent);
        Ok(())
    }

    fn expect_request(&mut self, aggregator: usize) -> Result<(), CommError> {
        let leader = self.call.groups.leader(aggregator);
        let request = self.call.comm.receive(leader, CONTROL, HEADER)?;
        self.push(request, Purpose::Request { aggregator });
        Ok(())
    }

    fn expect_data(&mut self, aggregator: usize) -> Result<(), CommError> {
        let leader = self.call.groups.leader(aggregator);
        let most = HEADER + self.call.work.sizes().window;
        let request = self.call.comm.receive(leader, DATA, most)?;
        self.push(request, Purpose::Data { aggregator });
        Ok(())
    }

    /// Counts a message of an aggregator with this header; returns whether another receive is to be
    /// posted for it.
    fn count_message(&mut self, group: usize, header: &WindowHeader) -> bool {
        let is_posted = |purpose: &&Purpose| match **purpose {
            Purpose::Data { aggregator } | Purpose::Request { aggregator } => aggregator == group,
            _ => false,
        };
        let posted = self.purposes.iter().filter(is_posted).count() as u64;
        let Some(link) = self.aggregators.iter_mut().find(|link| link.group == group) else {
            return false;
        };
        link.received += 1;
        if header.is_last {
            link.total = Some(header.number + 1);
        }
        let total = link.total.unwrap_or(u64::MAX);
        if link.received < total {
            return link.received + posted < total;
        }
        // No message will come for the receives that are left.
        self.aggregators.retain(|link| link.group != group);
        while let Some(index) = self.purposes.iter().position(|purpose| is_posted(&purpose)) {
            self.purposes.remove(index);
            drop(self.requests.remove(index));
        }
        false
    }

    /// A message has arrived, or was sent.
    fn arrived(
        &mut self,
        purpose: Purpose,
        bytes: Vec<u8>,
        first_error: &FirstError<'_>,
    ) -> Result<(), CommError> {
        match purpose {
            Purpose::Sent => {}
            Purpose::Acknowledged { peer, bytes } => self.end_moving(peer, bytes),
            Purpose::Part { slot, part } => self.fill(slot, part, &bytes, first_error),
            Purpose::Request { aggregator } => {
                let (header, _) = WindowHeader::split(&bytes);
                if self.count_message(aggregator, &header) {
                    self.expect_request(aggregator)?;
                }
                self.queue_pack(aggregator, header.window);
            }
            Purpose::Data { aggregator } => {
                let (header, _) = WindowHeader::split(&bytes);
                if self.count_message(aggregator, &header) {
                    self.expect_data(aggregator)?;
                }
                self.queue_unpack(aggregator, &header, bytes, first_error)?;
            }
        }
        Ok(())
    }

    // ---- aggregator ----

    /// Opens the next window, if there is a free slot.
    fn open_window(&mut self) -> bool {
        let Some(slot) = self.slots.iter().position(Option::is_none) else { return false };
        let (Some(schedule), peers) = (&mut self.schedule, &self.peers) else { return false };
        // Among groups that are equally busy the next neighbour comes first, this group last.
        let Some(window) = schedule.take(|peer| (peers[peer].is_own, peers[peer].busy)) else {
            return false;
        };
        let range = self.call.window(self.call.groups.aggregator[self.group], window);
        let mut parts = Vec::new();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let ranges: Vec<_> = peer.ranks.iter().map(|(_, file)| file.within(&range)).collect();
            let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let bytes = bytes.min(range.end - range.start);
            if bytes > 0 {
                peer.busy += bytes;
                peer.untold += 1;
                parts.push(Part { peer: number, ranges, bytes });
            }
        }
        let reads_first = !self.direction.is_write() || self.has_holes(&range, &parts);
        let pending = parts.len();
        self.slots[slot] =
            Some(OpenWindow { window, range: range.clone(), got: 0, parts, pending });
        if reads_first {
            self.io.submit(WindowIo { direction: Direction::Read, slot, range });
        } else {
            self.waiting.extend((0..pending).map(|part| (slot, part)));
        }
        true
    }

    /// Whether a window that is to be written may have bytes that no rank writes.
    fn has_holes(&self, range: &Range<u64>, parts: &[Part]) -> bool {
        let Some(check) = self.call.hole_check.filter(|check| !check.tiled) else { return false };
        let mut sum = Boundary::default();
        for part in parts {
            for (_, file) in &self.peers[part.peer].ranks {
                match file.boundary(range, &check.point) {
                    Ok(boundary) => sum += boundary,
                    Err(_) => return true,
                }
            }
        }
        sum != check.point.interval(range.start as i64..range.end as i64)
    }

    /// A window was read or written.
    fn window_done(&mut self, done: WindowDone) {
        let WindowDone { direction, slot, got } = done;
        if direction.is_write() {
            self.slots[slot] = None;
            return;
        }
        if let Some(open) = &mut self.slots[slot] {
            open.got = got;
            self.waiting.extend((0..open.parts.len()).map(|part| (slot, part)));
        }
    }

    /// Whether a part of a window may be requested or sent: little enough is under way on this
    /// link, and to or from this group, so that a slow one does not keep the others waiting.
    fn may_move(&self, part: &Part) -> bool {
        let peer = &self.peers[part.peer];
        let groups = self.call.groups;
        let others = (self.peers.len() as u64 - 1).max(1);
        let fits = |now: u64, limit: u64| now == 0 || now + part.bytes <= limit;
        peer.is_own
            || fits(self.under_way, groups.under_way())
                && fits(peer.under_way, groups.under_way() / 2 / others)
    }

    fn begin_moving(&mut self, peer: usize, bytes: u64) {
        self.under_way += bytes;
        self.peers[peer].under_way += bytes;
    }

    fn end_moving(&mut self, peer: usize, bytes: u64) {
        self.under_way -= bytes;
        self.peers[peer].under_way -= bytes;
    }

    /// Requests or sends the next part of a window, unless too much is under way.
    fn move_part(&mut self, first_error: &FirstError<'_>) -> Result<bool, CommError> {
        let may_move = |&(slot, number): &(usize, usize)| {
            let part = self.slots[slot].as_ref().map(|open| &open.parts[number]);
            part.is_some_and(|part| self.may_move(part))
        };
        let Some(place) = self.waiting.iter().position(may_move) else { return Ok(false) };
        let Some((slot, number)) = self.waiting.remove(place) else { return Ok(false) };
        let Some(open) = &self.slots[slot] else { return Ok(false) };
        let part = &open.parts[number];
        let (peer, bytes, window, got) = (part.peer, part.bytes, open.window, open.got);
        if self.peers[peer].is_own {
            self.peers[peer].untold -= 1;
            let (task, step) = match self.direction {
                Direction::Write => (Task::Put { slot }, RankStep::Put { slot, window }),
                Direction::Read => (Task::Take { slot }, RankStep::Take { slot, window, got }),
            };
            self.queued.push_back(QueuedTask { task, step, offsets: vec![0; self.ranks()] });
            return Ok(true);
        }
        self.begin_moving(peer, bytes);
        self.peers[peer].untold -= 1;
        let more = self.schedule.as_ref().is_some_and(|schedule| schedule.needs_more(peer));
        let is_last = !more && self.peers[peer].untold == 0;
        let leader = self.peers[peer].leader;
        let mut header =
            WindowHeader { window, got, number: self.peers[peer].sent, is_last, has_failed: false };
        self.peers[peer].sent += 1;
        if self.direction.is_write() {
            let data = self.call.comm.receive(leader, DATA, bytes as usize)?;
            self.push(data, Purpose::Part { slot, part: number });
            self.send(leader, CONTROL, header.to_bytes())?;
            return Ok(true);
        }
        let mut message = header.to_bytes();
        if let Some(open) = &self.slots[slot]
            && first_error.attempt(|| self.pack(slot, open, number, &mut message)).is_none()
        {
            header.has_failed = true;
            message = header.to_bytes();
        }
        let taken = self.call.comm.receive(leader, CONTROL, 0)?;
        self.push(taken, Purpose::Acknowledged { peer, bytes });
        self.send(leader, DATA, message)?;
        self.part_moved(slot, number);
        Ok(true)
    }

    /// Appends the bytes of a group in a window that was read to a message.
    fn pack(
        &self,
        slot: usize,
        open: &OpenWindow,
        number: usize,
        message: &mut Vec<u8>,
    ) -> Result<(), FileError> {
        let memory = self.call.work.slot(slot).cast_const();
        // SAFETY: the window was read into the slot, and stays until its parts are moved.
        let bytes = unsafe { std::slice::from_raw_parts(memory, open.got as usize) };
        let (start, ranks) = (open.range.start, &self.peers[open.parts[number].peer].ranks);
        let parts =
            || ranks.iter().map(|(_, file)| (file, file.within(&(start..start + open.got))));
        if parts().map(|(_, part)| part.end - part.start).sum::<u64>() > open.got {
            message.extend_from_slice(bytes);
            return Ok(());
        }
        for (file, part) in parts().filter(|(_, part)| !part.is_empty()) {
            let from = message.len();
            message.resize(from + (part.end - part.start) as usize, 0);
            take_stream(file, part.start, &mut message[from..], start, bytes)?;
        }
        Ok(())
    }

    /// Requested bytes have arrived.
    fn fill(&mut self, slot: usize, number: usize, bytes: &[u8], first_error: &FirstError<'_>) {
        let moved = self.slots[slot].as_ref().map(|open| &open.parts[number]);
        if let Some((peer, bytes)) = moved.map(|part| (part.peer, part.bytes)) {
            self.end_moving(peer, bytes);
        }
        if let Some(open) = &self.slots[slot] {
            let part = &open.parts[number];
            let peer = &self.peers[part.peer];
            first_error.attempt(|| {
                if bytes.len() as u64 != part.bytes {
                    let reason = "it sent no data".into();
                    return Err(FileError::Rank { rank: peer.leader, reason, kind: ErrorKind::Io });
                }
                let (memory, start) = (self.call.work.slot(slot), open.range.start);
                let len = (open.range.end - start) as usize;
                let all: u64 = part.ranges.iter().map(|range| range.end - range.start).sum();
                let (mut rest, mut copy) = (bytes, Vec::new());
                for ((_, file), range) in peer.ranks.iter().zip(&part.ranges) {
                    let own = (range.end - range.start) as usize;
                    if own == 0 {
                        continue;
                    }
                    let piece = if all > part.bytes {
                        copy.resize(own, 0);
                        take_stream(file, range.start, &mut copy, start, bytes)?;
                        &copy[..]
                    } else {
                        let (piece, after) = rest.split_at(own);
                        rest = after;
                        piece
                    };
                    // SAFETY: the slot is this window's and long enough; ranks of this group write
                    // their own bytes.
                    unsafe { put_stream(file, range.start, piece, start, memory, len)? };
                }
                Ok(())
            });
        }
        self.part_moved(slot, number);
    }

    /// A part of a window needs the slot no longer; the last one to do so completes the window.
    fn part_moved(&mut self, slot: usize, number: usize) {
        let Some(open) = &mut self.slots[slot] else { return };
        let Part { peer, bytes, .. } = open.parts[number];
        self.peers[peer].busy -= bytes;
        open.pending -= 1;
        if open.pending > 0 {
            return;
        }
        let range = open.range.clone();
        match self.direction {
            Direction::Write => {
                self.io.submit(WindowIo { direction: Direction::Write, slot, range });
            }
            Direction::Read => self.slots[slot] = None,
        }
    }

    /// The own group's part of a window was put or taken.
    fn own_part_moved(&mut self, slot: usize) {
        let own = self.peers.len() - 1;
        let number = self.slots[slot]
            .as_ref()
            .and_then(|open| open.parts.iter().position(|part| part.peer == own));
        if let Some(number) = number {
            self.part_moved(slot, number);
        }
    }

    // ---- client ----

    /// Where the bytes of each rank of this group lie in a message with those of a range, and how
    /// long it is. It is never longer than the range: one with bytes that several ranks mean holds
    /// the range as it is.
    fn offsets(&self, range: &Range<u64>) -> (Vec<u64>, u64) {
        let mut end = 0;
        let mut offsets = Vec::with_capacity(self.own.len());
        for file in self.own {
            let part = file.within(range);
            offsets.push(end);
            end += part.end - part.start;
        }
        let len = range.end - range.start;
        if end > len {
            offsets.fill(AS_IN_FILE);
        }
        (offsets, end.min(len))
    }

    fn queue_pack(&mut self, group: usize, window: u64) {
        let Some(aggregator) = self.call.groups.aggregator[group] else { return };
        if window == NO_WINDOW {
            return;
        }
        let (offsets, bytes) = self.offsets(&self.call.window(Some(aggregator), window));
        let task = Task::Pack { to: self.call.groups.leader(group), bytes };
        let step = RankStep::Pack { aggregator, window, staging: 0 };
        self.queued.push_back(QueuedTask { task, step, offsets });
    }

    fn queue_unpack(
        &mut self,
        group: usize,
        header: &WindowHeader,
        data: Vec<u8>,
        first_error: &FirstError<'_>,
    ) -> Result<(), CommError> {
        let WindowHeader { window, got, has_failed, .. } = *header;
        let (Some(aggregator), true) = (self.call.groups.aggregator[group], window != NO_WINDOW)
        else {
            return Ok(());
        };
        let leader = self.call.groups.leader(group);
        let start = self.call.window(Some(aggregator), window).start;
        let (offsets, bytes) = self.offsets(&(start..start + got));
        let arrived = first_error.attempt(|| {
            if has_failed || data.len() as u64 != HEADER as u64 + bytes {
                let reason = "it sent no data".into();
                return Err(FileError::Rank { rank: leader, reason, kind: ErrorKind::Io });
            }
            Ok(())
        });
        if arrived.is_none() {
            return self.send(leader, CONTROL, Vec::new());
        }
        let task = Task::Unpack { from: leader, data };
        let step = RankStep::Unpack { aggregator, window, got, staging: 0 };
        self.queued.push_back(QueuedTask { task, step, offsets });
        Ok(())
    }

    /// Publishes the next task, if there is room.
    fn publish(&mut self) -> bool {
        let Some(QueuedTask { task, .. }) = self.queued.front() else { return false };
        let needs_staging = matches!(task, Task::Pack { .. } | Task::Unpack { .. });
        if !self.call.work.has_room(self.ranks()) || needs_staging && self.free_staging.is_empty() {
            return false;
        }
        let Some(QueuedTask { mut task, mut step, offsets }) = self.queued.pop_front() else {
            return false;
        };
        let work = self.call.work;
        let buffer = if needs_staging { self.free_staging.pop() } else { None };
        if let (Some(buffer), RankStep::Pack { staging, .. } | RankStep::Unpack { staging, .. }) =
            (buffer, &mut step)
        {
            *staging = buffer;
        }
        let mut message = Vec::new();
        match (&mut task, buffer) {
            (Task::Pack { bytes, .. }, _) if work.needs_no_staging() => {
                message = vec![0; *bytes as usize];
                work.set_message(message.as_mut_ptr());
            }
            (Task::Unpack { data, .. }, _) if work.needs_no_staging() => {
                message = std::mem::take(data);
                work.set_message(message[HEADER..].as_mut_ptr());
            }
            (Task::Unpack { data, .. }, Some(buffer)) => {
                let data = &data[HEADER..];
                assert!(data.len() <= work.sizes().window, "a message fits its buffer");
                // SAFETY: no step uses the buffer, and it is long enough.
                unsafe {
                    let staging = work.staging(buffer);
                    std::ptr::copy_nonoverlapping(data.as_ptr(), staging, data.len());
                }
            }
            _ => {}
        }
        let number = self.call.work.publish(step, &offsets);
        self.published.push_back(PublishedTask { number, task, staging: buffer, message });
        true
    }

    /// All ranks of the group have done a task.
    fn task_done(&mut self, done: PublishedTask) -> Result<(), CommError> {
        let PublishedTask { task, staging, message, .. } = done;
        match task {
            Task::Put { slot } | Task::Take { slot } => self.own_part_moved(slot),
            Task::Unpack { from, .. } => self.send(from, CONTROL, Vec::new())?,
            Task::Pack { to, bytes } => {
                let message = match staging {
                    // An empty message says that a rank has failed.
                    None => Vec::new(),
                    Some(_) if self.call.has_failed() => Vec::new(),
                    Some(_) if self.call.work.needs_no_staging() => message,
                    Some(buffer) => {
                        assert!(bytes as usize <= self.call.work.sizes().window, "as above");
                        let staging = self.call.work.staging(buffer).cast_const();
                        // SAFETY: all ranks have packed their bytes into the buffer.
                        unsafe { std::slice::from_raw_parts(staging, bytes as usize) }.to_vec()
                    }
                };
                self.send(to, DATA, message)?;
            }
        }
        self.free_staging.extend(staging);
        Ok(())
    }
}
