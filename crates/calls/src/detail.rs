//! [`Detail`]: the arguments of notices, which have no fields of their own.

/// What else a notice said, as far as its function has such arguments. `docs/trace-format.md` has
/// the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail<P> {
    /// A second text: the new name of `link`, where a symbolic link leads (`symlink`, `readlink`),
    /// the name of an extended attribute.
    pub text: Option<P>,
    /// `AT_…`, or what the call has for flags.
    pub flags: i32,
    /// Modes, owners, offsets and the like.
    pub numbers: [u64; 4],
}

impl<P> Default for Detail<P> {
    fn default() -> Self {
        Self { text: None, flags: 0, numbers: [0; 4] }
    }
}

impl<P> Detail<P> {
    /// Nothing but numbers.
    pub fn numbers(numbers: &[u64]) -> Self {
        let mut detail = Self::default();
        detail.numbers.iter_mut().zip(numbers).for_each(|(into, number)| *into = *number);
        detail
    }

    /// The same with flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: i32) -> Self {
        self.flags = flags;
        self
    }

    /// The same with a text.
    #[must_use]
    pub fn with_text(mut self, text: Option<P>) -> Self {
        self.text = text;
        self
    }
}
