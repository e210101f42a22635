//! Which document a process starts with, what it keeps for the next start, and whether a file has news. Decisions
//! alone: whoever reads and writes files asks here.
//!
//! A process keeps the last document that came into force, so that it starts with it when whoever gave it is away or
//! has broken it. What the console sent comes before the file, which is only the way to begin without one. What was
//! kept *of the file* is a copy of it, so the file itself comes first while it is sound: it may have been edited while
//! the process was down. Then come the defaults.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::{Origin, Rules};

/// The last document that came into force, as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// `file` or `console`.
    pub origin: Origin,
    /// The number that the console gave it, which counts whatever the document calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Word for word, so that what it leaves out follows the defaults of whoever reads it.
    pub document: String,
}

impl Kept {
    /// The text of the file.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        let body = toml::to_string(self)?;
        Ok(format!(
            "# The last rules that were in force here. Written by the service, and read when it starts.\n{body}"
        ))
    }

    pub fn from_text(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// What a process runs on without a console.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    pub rules: Rules,
    /// `file`, `last_known_good` or `default`.
    pub origin: Origin,
    /// Where it comes from a file.
    pub document: Option<String>,
}

/// What a process starts with.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub rules: Rules,
    pub origin: Origin,
    /// What it is to return to when the console has no version in force any more.
    pub own: Own,
    /// What could not be used, and why.
    pub passed_over: Vec<String>,
}

/// Decides on the rules to start with. Both sources are `None` where there is none, and `Err` where there is one that
/// cannot be read. A file that cannot be used stops the start unless something was kept: to run on defaults in silence
/// would surprise somebody.
pub fn at_start(kept: Option<Result<Kept, String>>, file: Option<Result<String, String>>) -> Result<Start, String> {
    let mut passed_over = Vec::new();
    let kept = kept.and_then(|kept| {
        let read = kept.and_then(|kept| match Rules::from_toml(&kept.document) {
            Ok(rules) => Ok((Rules { version: kept.version.unwrap_or(rules.version), ..rules }, kept)),
            Err(error) => Err(error.to_string()),
        });
        read.map_err(|reason| passed_over.push(format!("the last known good rules: {reason}"))).ok()
    });
    let (of_console, of_file) = match kept {
        Some((rules, Kept { origin: Origin::Console, .. })) => (Some(rules), None),
        Some((rules, Kept { document, .. })) => (None, Some((rules, document))),
        None => (None, None),
    };
    let was_named = file.is_some();
    let read = file.and_then(|read| {
        let read = read.and_then(|document| match Rules::from_toml(&document) {
            Ok(rules) => Ok(Own { rules, origin: Origin::File, document: Some(document) }),
            Err(error) => Err(error.to_string()),
        });
        read.map_err(|reason| passed_over.push(format!("the file: {reason}"))).ok()
    });
    let own = match (read, of_file) {
        (Some(own), _) => own,
        (None, Some((rules, document))) => Own { rules, origin: Origin::LastKnownGood, document: Some(document) },
        (None, None) if was_named && of_console.is_none() => return Err(passed_over.join("; ")),
        (None, None) => Own { rules: Rules::default(), origin: Origin::Default, document: None },
    };
    Ok(match of_console {
        Some(rules) => Start { rules, origin: Origin::LastKnownGood, own, passed_over },
        None => Start { rules: own.rules.clone(), origin: own.origin, own, passed_over },
    })
}

/// What a look at a file's metadata tells. A ConfigMap is changed by turning a symbolic link to another folder, which
/// changes the file behind the path and not the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub modified: Option<SystemTime>,
    pub length: u64,
    pub inode: u64,
}

/// What was last seen of a watched file.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    stamp: Option<Stamp>,
    document: Option<String>,
}

impl Seen {
    /// The document is known already, such as the one that the process started with.
    #[must_use]
    pub const fn with(document: Option<String>) -> Self {
        Self { stamp: None, document }
    }

    /// Whether the file has to be read again.
    #[must_use]
    pub fn is_worth_reading(&self, stamp: Stamp) -> bool {
        self.stamp != Some(stamp)
    }

    /// Takes note of what was read, and says whether it is another document than the last. One that was refused is no
    /// news either until it changes, so that it is complained about once.
    pub fn is_news(&mut self, stamp: Stamp, document: &str) -> bool {
        self.stamp = Some(stamp);
        if self.document.as_deref() == Some(document) {
            return false;
        }
        self.document = Some(document.to_owned());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "version = 1";
    const TWO: &str = "version = 2";
    const BAD: &str = "version = 2\nverison = 3";

    fn kept(origin: Origin, document: &str) -> Option<Result<Kept, String>> {
        Some(Ok(Kept { origin, version: None, document: document.to_owned() }))
    }

    fn file(document: &str) -> Option<Result<String, String>> {
        Some(Ok(document.to_owned()))
    }

    fn started(kept: Option<Result<Kept, String>>, file: Option<Result<String, String>>) -> (i64, Origin) {
        let start = at_start(kept, file).unwrap();
        (start.rules.version, start.origin)
    }

    #[test]
    fn the_first_sound_source_counts() {
        assert_eq!(started(None, None), (0, Origin::Default));
        assert_eq!(started(None, file(ONE)), (1, Origin::File));
        assert_eq!(started(kept(Origin::File, ONE), None), (1, Origin::LastKnownGood));
        assert_eq!(started(kept(Origin::Console, TWO), file(ONE)), (2, Origin::LastKnownGood));
        assert_eq!(started(kept(Origin::File, ONE), file(TWO)), (2, Origin::File), "edited while the process was down");
    }

    #[test]
    fn a_broken_source_is_passed_over_and_named() {
        let start = at_start(kept(Origin::File, ONE), file(BAD)).unwrap();
        assert_eq!((start.rules.version, start.origin), (1, Origin::LastKnownGood));
        assert!(start.passed_over[0].contains("verison"), "{:?}", start.passed_over);
        let start = at_start(Some(Err("torn".into())), file(ONE)).unwrap();
        assert_eq!((start.origin, start.passed_over.len()), (Origin::File, 1));
        let start = at_start(kept(Origin::Console, BAD), None).unwrap();
        assert_eq!((start.origin, start.passed_over.len()), (Origin::Default, 1));
    }

    #[test]
    fn a_file_that_cannot_be_used_stops_the_start_when_nothing_was_kept() {
        assert!(at_start(None, file(BAD)).unwrap_err().contains("verison"));
        assert!(at_start(None, Some(Err("no such file".into()))).unwrap_err().contains("no such file"));
    }

    #[test]
    fn under_the_console_s_rules_there_are_some_of_its_own_to_return_to() {
        let own = |kept, file| {
            let own = at_start(kept, file).unwrap().own;
            (own.rules.version, own.origin)
        };
        assert_eq!(own(kept(Origin::Console, TWO), file(ONE)), (1, Origin::File));
        assert_eq!(own(kept(Origin::Console, TWO), None), (0, Origin::Default));
        assert_eq!(own(kept(Origin::Console, TWO), file(BAD)), (0, Origin::Default));
        assert_eq!(own(kept(Origin::File, ONE), file(BAD)), (1, Origin::LastKnownGood));
        assert_eq!(own(None, file(ONE)), (1, Origin::File));
    }

    #[test]
    fn the_number_that_the_console_gave_counts() {
        let kept = Kept { origin: Origin::Console, version: Some(9), document: ONE.to_owned() };
        let start = at_start(Some(Ok(kept)), None).unwrap();
        assert_eq!((start.rules.version, start.origin), (9, Origin::LastKnownGood));
    }

    #[test]
    fn what_is_kept_is_read_back_word_for_word() {
        let document = "# mine\nversion = 7\n[route.\"POST /v1/orders\"]\ntimeout_ms = 2900\n\n'''\n\"\"\"".to_owned();
        let kept = Kept { origin: Origin::Console, version: Some(7), document };
        assert_eq!(Kept::from_text(&kept.to_text().unwrap()).unwrap(), kept);
    }

    #[test]
    fn a_document_is_news_once_and_again_when_it_changes() {
        let stamp = |inode| Stamp { modified: None, length: 1, inode };
        let mut seen = Seen::with(Some(ONE.to_owned()));
        assert!(seen.is_worth_reading(stamp(1)));
        assert!(!seen.is_news(stamp(1), ONE));
        assert!(!seen.is_worth_reading(stamp(1)));
        // The link turns to another file of the same size and age.
        assert!(seen.is_worth_reading(stamp(2)));
        assert!(seen.is_news(stamp(2), BAD));
        assert!(!seen.is_news(stamp(3), BAD));
        assert!(seen.is_news(stamp(4), ONE));
    }
}
