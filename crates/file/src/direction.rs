//! [`Direction`]: whether a call reads or writes.

/// Whether a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

impl Direction {
    /// Whether it is [`Direction::Write`].
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write)
    }
}

/// Something for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerDirection<T> {
    read: T,
    write: T,
}

impl<T> PerDirection<T> {
    pub(crate) const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}
