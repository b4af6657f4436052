//! Copies of what was already decoded, which the LZ77 family of compressors consists of.

/// Appends to the first `at` bytes of the output `len` bytes from `distance` before. The two may
/// overlap: what is appended is then repeated. `None` if either does not lie in the output.
pub(super) fn copy_match(output: &mut [u8], at: usize, distance: usize, len: usize) -> Option<()> {
    let from = at.checked_sub(distance).filter(|_| distance > 0)?;
    let end = at.checked_add(len).filter(|&end| end <= output.len())?;
    if distance == 1 {
        let byte = output[from];
        output[at..end].fill(byte);
        return Some(());
    }
    // Each step doubles what can be copied at once.
    let mut at = at;
    while at < end {
        let part = (at - from).min(end - at);
        output.copy_within(from..from + part, at);
        at += part;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_repeat() {
        for distance in 1..6 {
            for len in 0..20 {
                let mut output = [0; 30];
                output[..6].copy_from_slice(b"abcdef");
                let mut wanted = output;
                for at in 6..6 + len {
                    wanted[at] = wanted[at - distance];
                }
                assert_eq!(copy_match(&mut output, 6, distance, len), Some(()));
                assert_eq!(output, wanted);
            }
        }
        let mut output = [0; 8];
        assert_eq!(copy_match(&mut output, 3, 0, 1), None);
        assert_eq!(copy_match(&mut output, 3, 4, 1), None);
        assert_eq!(copy_match(&mut output, 3, 1, 6), None);
        assert_eq!(copy_match(&mut output, 3, 1, usize::MAX), None);
    }
}
