//! [`Header::values_within`]: the number of values of a variable in a truncated file.
//!
//! The offset of a value grows with its number, so the missing values are always the last ones.

use super::{Header, Variable};

impl Header {
    /// The number of values of a variable within the first `file_len` bytes, counted from the first
    /// one.
    pub fn values_within(&self, variable: &Variable, file_len: u64) -> u64 {
        let size = u128::from(variable.external.size());
        let (begin, len) = (u128::from(variable.begin), u128::from(file_len));
        let shape = self.shape(variable);
        let product = |lens: &[u64]| {
            lens.iter().fold(1_u128, |product, &len| product.saturating_mul(u128::from(len)))
        };
        let available = if self.is_record(variable) {
            let each = product(shape.get(1..).unwrap_or_default());
            let stride = self.record_size().map_or(u128::MAX, u128::from);
            let Some(bytes) = len.checked_sub(begin).filter(|_| stride > 0) else { return 0 };
            let (whole, rest) = (bytes / stride, bytes % stride);
            let all = whole.saturating_mul(each).saturating_add((rest / size).min(each));
            all.min(product(&shape))
        } else {
            (len.saturating_sub(begin) / size).min(product(&shape))
        };
        u64::try_from(available).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use crate::format::{Dimension, Format, Header, Type, Variable};

    /// The twin: checks the end of every value.
    fn counted(header: &Header, variable: &Variable, len: u64) -> u64 {
        let shape = header.shape(variable);
        let size = variable.external.size();
        let (records, each) = if header.is_record(variable) {
            (shape[0], shape[1..].iter().product::<u64>())
        } else {
            (1, shape.iter().product())
        };
        let stride = header.record_size().unwrap();
        let mut available = 0;
        for record in 0..records {
            for value in 0..each {
                let end = variable.begin + record * stride + (value + 1) * size;
                available += u64::from(end <= len);
            }
        }
        available
    }

    #[test]
    fn values_before_the_end_of_the_file_are_counted() {
        for alone in [false, true] {
            let mut header = Header::new(Format::Cdf2);
            header.records = 3;
            for (name, len) in [("t", 0), ("x", 5)] {
                header.dimensions.push(Dimension::classic(name, len));
            }
            let shapes: [(Type, &[u32]); 5] = [
                (Type::Short, &[0, 1]),
                (Type::Int, &[1]),
                (Type::Byte, &[]),
                (Type::Double, &[0]),
                (Type::Char, &[0, 1]),
            ];
            for (external, dimensions) in shapes.into_iter().take(if alone { 3 } else { 5 }) {
                let name = format!("v{}", header.variables.len());
                header.variables.push(Variable::new(name, external, dimensions.to_vec()));
            }
            header.arrange(&super::super::Alignment::default(), None).unwrap();
            for len in 0..=header.end().unwrap() + 9 {
                for variable in &header.variables {
                    let available = header.values_within(variable, len);
                    assert_eq!(
                        available,
                        counted(&header, variable, len),
                        "{} {len}",
                        variable.name
                    );
                }
            }
        }
    }
}
