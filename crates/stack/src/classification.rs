//! [`Classification`]: what a stage touches and what it does to files, in the categories of
//! \[SCHMIDTKE\].

use std::fmt;

/// What a stage touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The bytes of files.
    Data,
    /// Names, sizes and other things about files.
    Metadata,
    /// Both.
    Both,
}

/// How much of the program's I/O has to pass through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// Each operation for itself.
    OneOperation,
    /// Several operations together.
    SeveralOperations,
    /// Only what is opened and closed.
    Open,
}

/// Whether it remembers anything from one operation to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing that changes what operations do.
    Stateless,
    /// Something.
    Stateful,
}

/// What it does to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// They become what they would be without it.
    Kept,
    /// Files are elsewhere, or otherwise than the program thinks, until something has been done.
    Deferred,
    /// They are destroyed, or operations fail: such a stage is for measurements or tests.
    Changed,
}

/// The kind of stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// What it touches.
    pub scope: Scope,
    /// How much has to pass through it.
    pub interference: Interference,
    /// Whether it remembers anything.
    pub state: State,
    /// What it does to files.
    pub meaning: Meaning,
}

macro_rules! names {
    ($type:ident: $($name:ident $text:literal),*) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$name => $text,)* })
            }
        }
    };
}

names!(Scope: Data "data", Metadata "metadata", Both "data and metadata");
names!(Interference: OneOperation "one operation", SeveralOperations "several operations", Open "open and close");
names!(State: Stateless "stateless", Stateful "stateful");
names!(Meaning: Kept "kept", Deferred "deferred", Changed "changed");
