//! [`FileNumber`] and [`Convert`]: the ten numeric types, equal in memory and in a file except for
//! the byte order, and the conversions between them.

use bytemuck::Pod;

/// A numeric type of memory and files.
pub(super) trait FileNumber: Pod {
    /// Its bytes, which need no alignment.
    type Bytes: Pod;
    /// netCDF's default fill value.
    const FILL: Self;

    fn from_bytes(bytes: Self::Bytes) -> Self;
    fn to_bytes(self) -> Self::Bytes;
    /// Its bytes in a file, padded with zeros.
    fn to_file(self) -> [u8; 8];
    /// From the first of those bytes.
    fn from_file(bytes: [u8; 8]) -> Self;
}

/// Conversion to another numeric type.
pub(super) trait Convert<T>: Copy {
    /// The value in the other type, and whether it is in range. A value out of range becomes *some*
    /// value, so that loops need no branches.
    fn convert(self) -> (T, bool);
}

macro_rules! numbers {
    ($($type:ty: $fill:expr),+ $(,)?) => {$(
        impl FileNumber for $type {
            type Bytes = [u8; size_of::<$type>()];
            const FILL: Self = $fill;

            #[inline]
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_ne_bytes(bytes)
            }

            #[inline]
            fn to_bytes(self) -> Self::Bytes {
                self.to_ne_bytes()
            }

            fn to_file(self) -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_be_bytes());
                bytes
            }

            fn from_file(bytes: [u8; 8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_be_bytes(own)
            }
        }
    )+};
}

numbers! {
    i8: -127, u8: u8::MAX,
    i16: -32_767, u16: u16::MAX,
    i32: -2_147_483_647, u32: u32::MAX,
    i64: -9_223_372_036_854_775_806, u64: 18_446_744_073_709_551_614,
    f32: 9.969_21e36, f64: 9.969_209_968_386_869e36,
}

/// Integers: in range if the other type has the value; rounded to floating point.
macro_rules! from_integers {
    ($($from:ty),+) => {$(
        from_integers!(@from $from => i8, u8, i16, u16, i32, u32, i64, u64);

        impl Convert<f32> for $from {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "one text for all types, lossless or not")]
            fn convert(self) -> (f32, bool) {
                (self as f32, true)
            }
        }

        impl Convert<f64> for $from {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "one text for all types, lossless or not")]
            fn convert(self) -> (f64, bool) {
                (self as f64, true)
            }
        }
    )+};
    (@from $from:ty => $($to:ty),+) => {$(
        impl Convert<$to> for $from {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "one text for all types, lossless or not")]
            fn convert(self) -> ($to, bool) {
                (self as $to, <$to>::try_from(self).is_ok())
            }
        }
    )+};
}

from_integers!(i8, u8, i16, u16, i32, u32, i64, u64);

/// Floating point to integers: truncated towards zero; a value beyond the limits by a fraction only
/// is out of range, as in netCDF. The limits of 64-bit integers are rounded to `f64` before the
/// comparison, so that 2⁶³ is in range and becomes the largest integer, also as in netCDF. NaN is
/// out of range.
macro_rules! to_integers {
    ($from:ty => $($to:ty),+) => {$(
        impl Convert<$to> for $from {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "one text for all types, lossless or not")]
            fn convert(self) -> ($to, bool) {
                let limits = <$to>::MIN as f64..=<$to>::MAX as f64;
                (self as $to, limits.contains(&f64::from(self)))
            }
        }
    )+};
}

to_integers!(f32 => i8, u8, i16, u16, i32, u32, i64, u64);
to_integers!(f64 => i8, u8, i16, u16, i32, u32, i64, u64);

impl Convert<Self> for f32 {
    #[inline]
    fn convert(self) -> (Self, bool) {
        (self, true)
    }
}

impl Convert<f64> for f32 {
    #[inline]
    fn convert(self) -> (f64, bool) {
        (self.into(), true)
    }
}

impl Convert<Self> for f64 {
    #[inline]
    fn convert(self) -> (Self, bool) {
        (self, true)
    }
}

/// Finite values beyond the largest `f32` are out of range, even if they would be rounded to it;
/// infinities and NaN are in range.
impl Convert<f32> for f64 {
    #[inline]
    fn convert(self) -> (f32, bool) {
        let beyond = self.abs() > Self::from(f32::MAX);
        (self as f32, !beyond | self.is_infinite())
    }
}
