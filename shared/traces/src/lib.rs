//! Spans: what a piece of work was part of, how long it took and how it ended.
//!
//! Problem: an order passes five processes, a broker and hours; whoever asks why it took so long needs one picture of all
//! of it, and whoever runs it without a collector must not pay for the picture.
//!
//! Rule: a span's ids are those that travel as `traceparent` anyway, so that they are the same whether or not anybody
//! collects. A span holds what its author put into it and nothing else: no line of the log, no header and no body finds
//! its way out by itself, and so no secret does. A span that ends is handed to the process's collector, which does not
//! block. Without one a span is empty: no clock is read, nothing is allocated. Whoever begins a trace decides whether it
//! is sampled; the flag is honoured and travels on.
//!
//! A tracer of OpenTelemetry would give ids of its own, beside those that travel, and take along what the log knows of a
//! request; this does neither. What it is good at, the form on the wire and the sending, it does for us.
//!
//! Not for counting (metrics) and not for what a person has to know (the log).
//!
//! When copying: bring [`contracts::trace`] along; where spans go is `chassis::collector`'s.

pub mod span;

pub use span::{Finished, Kind, Span, Value, collect, is_collecting};
