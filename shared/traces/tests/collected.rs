//! What becomes of spans before and after somebody collects them. One test, since the collector is the process's.

use std::sync::{Arc, Mutex};

use allocation_counter::measure;
use contracts::trace::TraceContext;
use traces::{Finished, Kind, Span, collect, is_collecting};

#[test]
fn spans_are_empty_until_somebody_collects_and_then_are_handed_over_as_they_end() {
    let parent = TraceContext::root();
    assert!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total > 0, "nothing is counted at all");
    let costs = measure(|| {
        let mut unseen = Span::within(Kind::Client, &parent, || panic!("a name nobody reads is not made"));
        unseen.set_display("key", "value");
        unseen.fail("for no one");
        assert!(!is_collecting() && unseen.context().is_none());
    });
    assert_eq!(costs.count_total, 0, "a span that nobody collects allocates nothing");

    let seen: Arc<Mutex<Vec<Finished>>> = Arc::default();
    let sees = seen.clone();
    assert!(collect(move |span| sees.lock().unwrap().push(span)));
    assert!(!collect(|_| panic!("the first one stays")));

    let mut outer = Span::begin(Kind::Server, parent, None, || "outer".into());
    outer.set("http.response.status_code", 503_u16);
    outer.fail("503");
    let inner = Span::within(Kind::Internal, &outer.context().unwrap(), || "inner".into());
    Span::within(Kind::Internal, &parent, || "never was".into()).forget();
    let unsampled: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00".parse().unwrap();
    assert!(Span::within(Kind::Client, &unsampled, || "not sampled".into()).context().is_none());
    assert!(seen.lock().unwrap().is_empty(), "none has ended");
    drop(inner);
    drop(outer);

    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["inner", "outer"]);
    assert_eq!((seen[0].parent, seen[1].parent, seen[1].own), (Some(parent), None, parent));
    assert_eq!(seen[0].own.trace_id(), parent.trace_id());
    assert!(seen[0].own != parent && seen[1].began <= seen[0].began && seen[0].ended <= seen[1].ended);
    assert_eq!((seen[1].attributes.len(), seen[1].error.as_deref()), (1, Some("503")));
}
