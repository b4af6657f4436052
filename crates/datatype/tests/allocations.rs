//! Walking, seeking and packing allocate nothing: memory does not grow with the access.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use striate_datatype::{Cursor, Datatype, Packer, Pieces};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn nothing_is_allocated_per_run() {
    let file: Datatype =
        "struct(1 of vector(300, 1 of vector(50, 3 of i32, stride=5), stride=2) at 0, \
         1 of hindexed([3 at 0, 9 at 40, 2 at 90]) at 1000000)"
            .parse()
            .unwrap();
    let memory: Datatype = "hvector(1000, 1 of bytes(6), stride=11)".parse().unwrap();
    let mut runs = Cursor::new(&file, 2).unwrap();
    let mut seeker = Cursor::new(&file, 2).unwrap();
    let mut window = file.window(1, 5000..900_000).unwrap();
    let mut pieces = Pieces::new(Cursor::new(&memory, 20).unwrap(), Cursor::new(&file, 2).unwrap());
    let packer = Packer::new(&file, 1).unwrap();
    let bytes = vec![1; file.true_upper_bound() as usize];
    let mut stream = vec![0; packer.size() as usize];

    let (mut walked, mut paired) = (0, 0);
    let allocations = allocations_of(|| {
        walked = runs.by_ref().count() + window.by_ref().count();
        paired = pieces.by_ref().count();
        for position in (0..seeker.remaining()).step_by(997) {
            seeker.seek(position);
            seeker.next_run(100);
            seeker.seek_offset(position as i64 * 3).unwrap();
        }
        packer.pack(&bytes, 0, &mut stream).unwrap();
        packer.pack_window(&bytes, 0, 12_345, &mut stream[12_345..30_000]).unwrap();
    });
    assert!(walked > 30_000 && paired >= 20_000, "{walked} {paired}");
    assert_eq!(allocations, 0);
}
