//! [`Filter`]: one step of a filter pipeline, as the message names it.

use super::Name;

/// A filter that each chunk passes. Writing applies the filters of a pipeline in their order,
/// reading in the opposite one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// The registered number: 1 deflate, 2 shuffle, 3 Fletcher-32, 4 szip, 5 n-bit, 6 scale-offset;
    /// others from 256.
    pub id: u16,
    /// What a program called it; often empty.
    pub name: Name,
    /// A writer goes on without it if it fails on a chunk, whose filter mask then says so.
    pub optional: bool,
    /// The filter's own parameters (client data).
    pub parameters: Vec<u32>,
}
