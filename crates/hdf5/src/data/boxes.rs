//! Boxes of elements: what two of them share, as runs of elements.

/// A box: its first coordinates and its shape. Its elements lie one after the other, the last
/// dimension fastest.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) start: Vec<u64>,
    pub(super) shape: Vec<u64>,
}

impl Frame {
    /// Whether it shares elements with another.
    pub(super) fn meets(&self, other: &Self) -> bool {
        shared(self, other).is_some()
    }

    /// The number of the element at some coordinates.
    fn number(&self, at: &[u64]) -> usize {
        let steps = at.iter().zip(&self.start).zip(&self.shape);
        steps.fold(0, |number, ((at, start), size)| number * *size as usize + (at - start) as usize)
    }
}

/// What two boxes share.
fn shared(one: &Frame, other: &Frame) -> Option<Frame> {
    let mut both = Frame { start: Vec::new(), shape: Vec::new() };
    for dimension in 0..one.start.len() {
        let start = one.start[dimension].max(other.start[dimension]);
        let end = |frame: &Frame| frame.start[dimension].saturating_add(frame.shape[dimension]);
        let end = end(one).min(end(other));
        both.shape.push(end.checked_sub(start).filter(|&count| count > 0)?);
        both.start.push(start);
    }
    Some(both)
}

/// Calls with all coordinates of a shape, in order.
pub(super) fn each<E>(
    shape: &[u64],
    call: &mut dyn FnMut(&[u64]) -> Result<(), E>,
) -> Result<(), E> {
    let mut at = vec![0; shape.len()];
    loop {
        call(&at)?;
        let mut dimension = shape.len();
        loop {
            if dimension == 0 {
                return Ok(());
            }
            dimension -= 1;
            at[dimension] += 1;
            if at[dimension] < shape[dimension] {
                break;
            }
            at[dimension] = 0;
        }
    }
}

/// The runs of elements that a box has in two others, as numbers of elements in both, and their
/// length. The box is within both.
pub(super) fn runs<E>(
    from: &Frame,
    to: &Frame,
    part: &Frame,
    call: &mut dyn FnMut(usize, usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    // Dimensions that are whole in both boxes make runs longer.
    let mut fast = part.shape.len();
    let mut length = 1;
    while fast > 0 {
        fast -= 1;
        length *= part.shape[fast] as usize;
        if from.shape[fast] != part.shape[fast] || to.shape[fast] != part.shape[fast] {
            break;
        }
    }
    each(&part.shape[..fast], &mut |steps| {
        let mut at = part.start.clone();
        at.iter_mut().zip(steps).for_each(|(at, step)| *at += step);
        call(from.number(&at), to.number(&at), length)
    })
}

/// Copies what two boxes share.
pub(super) fn copy(from: &[u8], source: &Frame, to: &mut [u8], target: &Frame, element: usize) {
    let Some(part) = shared(source, target) else { return };
    let done: Result<(), std::convert::Infallible> =
        runs(source, target, &part, &mut |begin, at, count| {
            let bytes = &from[begin * element..(begin + count) * element];
            to[at * element..(at + count) * element].copy_from_slice(bytes);
            Ok(())
        });
    match done {
        Ok(()) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_boxes_share_is_copied() {
        let source = Frame { start: vec![2, 3, 0], shape: vec![3, 4, 2] };
        let target = Frame { start: vec![3, 1, 0], shape: vec![5, 4, 2] };
        let from: Vec<u8> = (1..25).collect();
        let mut to = vec![0; 40];
        copy(&from, &source, &mut to, &target, 1);
        let mut slow = vec![0; 40];
        each(&[3, 4, 2], &mut |at| {
            let at: Vec<u64> = at.iter().zip(&source.start).map(|(at, start)| at + start).collect();
            let frame = Frame { start: at.clone(), shape: vec![1; 3] };
            if frame.meets(&target) {
                slow[target.number(&at)] = from[source.number(&at)];
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(to, slow);
        assert!(to.contains(&9));
    }

    #[test]
    fn whole_dimensions_make_one_run() {
        let frame = Frame { start: vec![0, 0, 0], shape: vec![4, 5, 6] };
        let part = Frame { start: vec![1, 0, 0], shape: vec![2, 5, 6] };
        let mut found = Vec::new();
        runs(&frame, &part, &part, &mut |from, to, count| {
            found.push((from, to, count));
            Ok::<(), ()>(())
        })
        .unwrap();
        assert_eq!(found, [(30, 0, 60)]);
    }
}
