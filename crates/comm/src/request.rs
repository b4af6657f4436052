//! [`Pending`]: the transport's side of a send or receive in progress.

use std::any::Any;
use std::fmt::Debug;

use crate::comm::Request;
use crate::error::CommError;

/// The transport's side of a [`Request`]; only the transport that made it looks inside.
///
/// Dropping it abandons the operation; memory that the transport may still write to is not freed.
pub(crate) trait Pending: Any + Debug + Send {}

impl Request {
    pub(crate) fn new(pending: impl Pending) -> Self {
        Self(Box::new(pending))
    }

    /// The transport's side, if it is a `P`.
    pub(crate) fn downcast<P: Pending>(self) -> Result<Box<P>, CommError> {
        (self.0 as Box<dyn Any>).downcast().map_err(|_| CommError::ForeignRequest)
    }

    /// A reference to the transport's side, if it is a `P`.
    pub(crate) fn downcast_mut<P: Pending>(&mut self) -> Result<&mut P, CommError> {
        let any: &mut dyn Any = &mut *self.0;
        any.downcast_mut().ok_or(CommError::ForeignRequest)
    }
}
