//! Whatever moment the power fails at, the catalogue opens again and holds exactly what was
//! acknowledged; what was under way is there as a whole or not at all.

use proptest::prelude::*;
use striate_server::catalog::Catalog;

use crate::model::{Model, Operation, operation};
use crate::simulated_disk::{Chance, SimulatedDisk};

/// From one power-up to the next cut.
#[derive(Clone, Debug)]
struct Life {
    operations: Vec<Operation>,
    /// Changes and syncs of the disk until the cut, those of opening included.
    fuse: u64,
    /// What if all operations are done before: whether the catalogue is closed before the cut.
    closes: bool,
    seed: u64,
}

fn life() -> impl Strategy<Value = Life> {
    // A short fuse burns through while the catalogue recovers from the cut before.
    let fuse = prop_oneof![1 => 0..25u64, 3 => 0..400u64];
    let operations = prop::collection::vec(operation(), 0..40);
    (operations, fuse, any::<bool>(), any::<u64>())
        .prop_map(|(operations, fuse, closes, seed)| Life { operations, fuse, closes, seed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn acknowledged_changes_survive_power_cuts(lives in prop::collection::vec(life(), 1..8)) {
        let mut disk = SimulatedDisk::new();
        drop(Catalog::on_backend(disk.clone()).unwrap());
        // What the disk may hold: the second if an operation was under way at the last cut.
        let mut possible = vec![Model::default()];
        let mut now = 0;
        for life in &lives {
            disk.fail_after(life.fuse);
            match Catalog::on_backend(disk.clone()) {
                Err(error) => prop_assert!(disk.failed(), "cannot open: {}", error),
                Ok(catalog) => {
                    let found = possible
                        .iter()
                        .position(|model| *model == Model::of(&catalog, model.created));
                    prop_assert!(found.is_some(), "{:?} holds none of {:?}",
                        Model::of(&catalog, 0), possible);
                    let mut model = possible.swap_remove(found.unwrap());
                    possible.clear();
                    for operation in &life.operations {
                        now += 1;
                        let before = model.clone();
                        let expected = model.run(operation, now);
                        match operation.run(&catalog, now) {
                            Ok(answer) => prop_assert_eq!(answer, expected),
                            Err(error) => {
                                prop_assert!(disk.failed(), "{:?}: {}", operation, error);
                                possible.push(before);
                                break;
                            }
                        }
                    }
                    possible.push(model);
                    if !life.closes {
                        disk.fail_now();
                    }
                }
            }
            disk = disk.after_power_cut(&mut Chance(life.seed));
        }
        let catalog = Catalog::on_backend(disk).unwrap();
        prop_assert!(possible.iter().any(|model| *model == Model::of(&catalog, model.created)));
    }
}
