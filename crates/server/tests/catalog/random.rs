//! Random operations give the answers of the model, and hold through reopening.

use proptest::prelude::*;
use striate_server::catalog::Catalog;

use crate::model::{Model, operation};
use crate::simulated_disk::SimulatedDisk;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_catalogue_answers_like_the_model(
        steps in prop::collection::vec((operation(), prop::bool::weighted(0.05)), 1..120)
    ) {
        let disk = SimulatedDisk::new();
        let mut catalog = Catalog::on_backend(disk.clone()).unwrap();
        let mut model = Model::default();
        for (now, (operation, reopen)) in (0..).zip(&steps) {
            if *reopen {
                drop(catalog);
                catalog = Catalog::on_backend(disk.clone()).unwrap();
            }
            let answer = operation.run(&catalog, now).unwrap();
            prop_assert_eq!(answer, model.run(operation, now), "{:?}", operation);
        }
        prop_assert_eq!(&Model::of(&catalog, model.created), &model);
        for prefix in ["a", "a/", "b/a", "a-", "none"] {
            let listed = catalog.list(prefix, None, 1000).unwrap().0;
            let expected: Vec<_> =
                model.names.clone().into_iter().filter(|(name, _)| name.starts_with(prefix)).collect();
            prop_assert_eq!(listed, expected);
        }
    }
}
