//! What a request becomes, and how it is compared.

use proptest::prelude::*;

use super::super::report::Obstacle;
use super::super::*;

fn request(count: Option<StripeCount>, unit: Option<u64>, start: Option<u32>) -> StripeRequest {
    StripeRequest { count, unit, start, over_composite: false }
}

fn numbers(request: StripeRequest, targets: Option<u32>) -> (u32, u16, u16) {
    let layout = request.layout(targets).unwrap();
    assert_eq!((layout.form, layout.pattern, layout.objects.len()), (LayoutForm::V1, 1, 0));
    (layout.unit, layout.count, layout.start)
}

#[test]
fn units_are_rounded_and_counts_clipped() {
    let of = |n| Some(StripeCount::Of(n));
    assert_eq!(numbers(request(of(4), Some(1 << 20), Some(3)), Some(8)), (1 << 20, 4, 3));
    assert_eq!(numbers(request(of(9), Some(1), Some(0)), Some(8)), (65536, 8, 0));
    assert_eq!(numbers(request(None, Some(65537), None), Some(8)), (131_072, 0, 0xFFFF));
    assert_eq!(numbers(request(Some(StripeCount::All), None, None), Some(8)), (0, 8, 0xFFFF));
    assert_eq!(numbers(request(Some(StripeCount::All), None, None), None), (0, 0xFFFF, 0xFFFF));
    assert_eq!(
        numbers(request(of(u32::MAX), Some(u64::MAX), None), None),
        (0xFFFF_0000, 2000, 0xFFFF)
    );
    assert_eq!(numbers(request(of(0), Some(0), None), Some(0)), (65536, 1, 0xFFFF));
    assert_eq!(request(None, None, Some(0xFFDF)).layout(None).unwrap().start, 0xFFDF);
    assert!(request(None, None, Some(0xFFE0)).layout(None).is_none(), "means something else");
}

proptest! {
    #[test]
    fn layouts_are_what_the_file_system_takes(
        count in any::<Option<u32>>(), unit in any::<Option<u64>>(),
        start in prop::option::of(0..0xFFE0_u32), targets in any::<Option<u32>>(),
    ) {
        let request = request(count.map(StripeCount::Of), unit, start);
        let (size, stripes, first) = numbers(request, targets);
        prop_assert_eq!(size % 65536, 0);
        prop_assert_eq!(size == 0, unit.is_none());
        prop_assert!(unit.is_none_or(|unit| u64::from(size) >= unit.min(0xFFFF_0000)));
        prop_assert!(stripes <= 2000 && targets.is_none_or(|n| u32::from(stripes) <= n.max(1)));
        prop_assert_eq!(stripes == 0, count.is_none());
        prop_assert_eq!(start, (first != 0xFFFF).then_some(u32::from(first)));
    }
}

#[test]
fn requests_are_told() {
    let text = |count, unit, start| request(count, unit, start).to_string();
    let four = Some(StripeCount::Of(4));
    assert_eq!(text(four, Some(65536), Some(3)), "4 stripes of 65536 bytes from OST 3 on");
    assert_eq!(text(Some(StripeCount::Of(1)), None, None), "1 stripe");
    assert_eq!(text(Some(StripeCount::All), None, Some(0)), "stripes on all OSTs from OST 0 on");
    assert_eq!(text(None, Some(9), None), "stripes of 9 bytes");
}

#[test]
fn differences_are_named() {
    let asked = request(Some(StripeCount::Of(4)), Some(1 << 20), Some(3));
    let actual = Striping { unit: 1 << 20, count: Some(4), start: Some(3), components: 1 };
    let difference = |actual: Result<Option<Striping>, String>, obstacle: Option<&Obstacle>| {
        StripingReport::new(asked, actual, Some(8), obstacle).difference
    };
    assert_eq!(difference(Ok(Some(actual)), None), None);
    assert_eq!(difference(Ok(Some(actual)), Some(&Obstacle::Existed)), None, "no harm was done");
    let other = Striping { unit: 65536, count: Some(1), start: Some(0), components: 1 };
    assert_eq!(
        difference(Ok(Some(other)), Some(&Obstacle::Existed)).unwrap(),
        "4 stripes of 1048576 bytes from OST 3 on asked for, but it has 1 stripe, its stripes have \
         65536 bytes, it starts at OST 0: the file was there before and keeps its layout"
    );
    let undecided = Striping { count: None, start: None, components: 2, ..actual };
    let text = difference(Ok(Some(undecided)), None).unwrap();
    assert!(text.contains("2 components") && text.contains("not decided"), "{text}");
    assert!(difference(Ok(None), None).unwrap().ends_with("it has no stripes"));
    assert!(difference(Err("EIO".into()), None).unwrap().contains("cannot be read (EIO)"));

    let nothing = StripingReport::new(StripeRequest::default(), Ok(None), None, None);
    assert_eq!(nothing.difference, None, "nothing was asked for");
    let all = request(Some(StripeCount::All), None, None);
    let report = |targets| StripingReport::new(all, Ok(Some(actual)), targets, None).difference;
    assert_eq!((report(None), report(Some(4))), (None, None));
    assert!(report(Some(5)).unwrap().contains("it has 4 stripes"));
}
