//! Views: which bytes of the file a rank sees, and in which units it counts them.

use striate_datatype::Datatype;

use crate::FileError;

/// The file as a rank sees it: endless copies of `filetype` from `displacement` on, counted in
/// `etype`s. What lies in the gaps of the filetype is not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
}

impl View {
    /// A view. The filetype holds whole etypes, its bytes ascend and do not overlap; none lies before the
    /// displacement. A filetype without bytes shows nothing.
    ///
    /// Where its bounds are so narrow that copies would overlap – libraries make such types, of which they use one
    /// copy – accesses that leave the first copy are refused. MPI allows filetypes that overlap themselves in files
    /// that are only read; these are refused, too.
    pub fn new(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
    ) -> Result<Self, FileError> {
        let refuse = |reason: String| Err(FileError::View { reason });
        if i64::try_from(displacement).is_err() {
            return refuse(format!("displacement {displacement} is beyond 2^63 - 1"));
        }
        if etype.size() == 0 {
            return refuse("an etype must hold at least one byte".into());
        }
        if !filetype.size().is_multiple_of(etype.size()) {
            let (whole, part) = (filetype.size(), etype.size());
            return refuse(format!(
                "a filetype of {whole} bytes does not hold whole etypes of {part}"
            ));
        }
        if filetype.size() > 0 && filetype.true_lower_bound() < 0 {
            return refuse("the filetype reaches below the displacement".into());
        }
        if !filetype.is_ascending() {
            return refuse("the filetype's bytes must ascend without overlap".into());
        }
        Ok(Self { displacement, etype: etype.clone(), filetype: filetype.clone() })
    }

    /// The view of a file that has just been opened: all bytes.
    pub fn bytes() -> Self {
        let byte = Datatype::element(striate_datatype::Element::U8);
        Self { displacement: 0, etype: byte.clone(), filetype: byte }
    }

    /// Where the first copy of the filetype lies.
    pub const fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of offsets.
    pub const fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// What is seen.
    pub const fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// Whether it shows every byte from the displacement on.
    pub fn is_contiguous(&self) -> bool {
        let Self { filetype, .. } = self;
        filetype.size() > 0
            && filetype.is_contiguous()
            && filetype.true_lower_bound() == 0
            && filetype.extent() == filetype.size() as i64
    }

    /// Whether `len` bytes from `position` of the view's stream on are there, in ascending order.
    pub(crate) fn shows(&self, position: u64, len: u64) -> Result<(), FileError> {
        let size = self.filetype.size();
        let refuse = |reason: &str| Err(FileError::View { reason: reason.into() });
        if len == 0 {
            Ok(())
        } else if size == 0 {
            refuse("the filetype holds no byte: there is nothing to access")
        } else if !self.filetype.is_monotonic() && position.saturating_add(len) > size {
            refuse("copies of the filetype overlap: only the first can be accessed")
        } else {
            Ok(())
        }
    }

    /// Offset in the file of the byte at `position` of the view's stream.
    pub fn byte_offset(&self, position: u64) -> Result<u64, FileError> {
        let size = self.filetype.size().max(1);
        let inside = crate::access::FileSide::new(self, position % size, 1)?.range();
        let extent = self.filetype.extent().unsigned_abs();
        let skipped = (position / size).checked_mul(extent);
        inside
            .zip(skipped)
            .and_then(|(inside, skipped)| inside.start.checked_add(skipped))
            .ok_or(FileError::View { reason: "an offset beyond 2^64".into() })
    }

    /// Bytes of the view's stream before the byte at `offset` of the file.
    pub(crate) fn stream_before(&self, offset: u64) -> Result<u64, FileError> {
        let Some(rest) = offset.checked_sub(self.displacement) else { return Ok(0) };
        if !self.filetype.is_monotonic() || self.filetype.size() == 0 {
            let rest = i64::try_from(rest).unwrap_or(i64::MAX);
            return Ok(self.filetype.bytes_before(1, rest)?);
        }
        let extent = self.filetype.extent().unsigned_abs().max(1);
        // The copies before the one that `offset` may lie in, and those that still begin before it.
        let first =
            (rest / extent).saturating_sub(self.filetype.true_upper_bound() as u64 / extent);
        let copies = rest / extent - first + 1;
        let inside = i64::try_from(rest - first * extent).unwrap_or(i64::MAX);
        Ok(first * self.filetype.size() + self.filetype.bytes_before(copies, inside)?)
    }
}

impl Default for View {
    fn default() -> Self {
        Self::bytes()
    }
}
