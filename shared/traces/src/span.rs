//! A span, from its beginning to the collector.

use std::{
    borrow::Cow,
    fmt::Display,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use contracts::trace::TraceContext;

/// Where spans go that end.
type Collector = Box<dyn Fn(Finished) + Send + Sync>;

static COLLECTOR: OnceLock<Collector> = OnceLock::new();

/// Hands every span that begins from now on to `collector` when it ends; it must not block. False: there is one already,
/// and it stays.
pub fn collect(collector: impl Fn(Finished) + Send + Sync + 'static) -> bool {
    COLLECTOR.set(Box::new(collector)).is_ok()
}

#[must_use]
pub fn is_collecting() -> bool {
    COLLECTOR.get().is_some()
}

/// Which side of which exchange a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

/// What an attribute says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(Cow<'static, str>),
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// A span that is over, or will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub own: TraceContext,
    pub parent: Option<TraceContext>,
    pub kind: Kind,
    pub name: Cow<'static, str>,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it counts as failed.
    pub error: Option<Cow<'static, str>>,
}

/// A piece of work under way; it ends when this is dropped, also when the work is given up.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<Finished>>);

impl Span {
    /// Of work whose context has travelled, or will: `own` is what others name as their parent.
    pub fn begin(
        kind: Kind,
        own: TraceContext,
        parent: Option<TraceContext>,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> Self {
        if !is_collecting() || !own.is_sampled() {
            return Self(None);
        }
        let now = SystemTime::now();
        let (name, attributes) = (name(), Vec::new());
        Self(Some(Box::new(Finished { own, parent, kind, name, began: now, ended: now, attributes, error: None })))
    }

    /// Of work within that of `parent`, with a context that is made only if it is recorded.
    pub fn within(kind: Kind, parent: &TraceContext, name: impl FnOnce() -> Cow<'static, str>) -> Self {
        if !is_collecting() {
            return Self(None);
        }
        Self::begin(kind, parent.child(), Some(*parent), name)
    }

    /// What work within this one names as its parent; `None` where nothing is recorded.
    #[must_use]
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|recorded| recorded.own)
    }

    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(recorded) = &mut self.0 {
            recorded.attributes.push((name, value.into()));
        }
    }

    /// [`Self::set`] for what has to be made a text first, which it is only if it is recorded.
    pub fn set_display(&mut self, name: &'static str, value: &(impl Display + ?Sized)) {
        if self.0.is_some() {
            self.set(name, value.to_string());
        }
    }

    /// It did not come to what it was to.
    pub fn fail(&mut self, why: &'static str) {
        if let Some(recorded) = &mut self.0 {
            recorded.error = Some(why.into());
        }
    }

    /// Since its beginning; nothing where nothing is recorded.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |recorded| recorded.began.elapsed().unwrap_or_default())
    }

    /// As if it had never been.
    pub fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(mut recorded), Some(collector)) = (self.0.take(), COLLECTOR.get()) {
            // The clock may have been set back meanwhile.
            recorded.ended = SystemTime::now().max(recorded.began);
            collector(*recorded);
        }
    }
}
