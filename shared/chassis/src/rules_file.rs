//! Rules from files: which ones to start with, the watch on `RULES_FILE`, and the last known good on disk.
//!
//! What to do with what is read is decided in [`rules::source`]; here is the reading and writing. A file that changes
//! comes into force without a restart once it is valid; a bad one is refused with everything that is wrong with it, and
//! the rules in force stay. Whatever comes into force is kept in `RULES_LAST_KNOWN_GOOD`, so that the next start
//! does not depend on whoever gave it.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rules::{
    Origin, Rules, RulesHandle,
    source::{self, Kept, Seen, Stamp},
};

use crate::{
    Lifecycle,
    env::{ConfigError, Env, bad},
};

/// How often the file is looked at: soon for a person, and one `stat` a second.
const POLL: Duration = Duration::from_secs(1);

/// The rules that the process started with, and the handle to those in force.
#[derive(Debug, Clone)]
pub struct LoadedRules {
    /// For what takes effect at the start alone, such as the sizes of pools.
    pub rules: Rules,
    /// Where those came from.
    pub origin: Origin,
    /// For everything else.
    pub handle: RulesHandle,
    files: Arc<Files>,
}

#[derive(Debug, Default)]
struct Files {
    /// `RULES_FILE`
    watched: Option<PathBuf>,
    /// `RULES_LAST_KNOWN_GOOD`: where the last rules in force are kept. Unset: they are not, since no place is right
    /// everywhere.
    kept: Option<PathBuf>,
    keep_first: Option<Kept>,
    passed_over: Vec<String>,
}

impl LoadedRules {
    /// Rules that come from no file and that no file changes.
    #[must_use]
    pub fn fixed(rules: Rules, origin: Origin) -> Self {
        let handle = RulesHandle::new(rules.clone(), origin);
        Self { rules, origin, handle, files: Arc::default() }
    }

    /// Takes care of the files from now until shutdown.
    pub fn watch(&self, lifecycle: &Lifecycle) {
        for reason in &self.files.passed_over {
            tracing::error!(reason, rules_origin = ?self.origin, "rules that cannot be used were passed over");
        }
        if let Some(kept) = &self.files.keep_first {
            keep(self.files.kept.as_deref(), kept);
        }
        let Some(path) = self.files.watched.clone() else { return };
        // What the process started with is no news.
        let known = self.files.keep_first.as_ref().map(|kept| kept.document.clone());
        let mut watch =
            Watch { path, kept: self.files.kept.clone(), seen: Seen::with(known), handle: self.handle.clone() };
        lifecycle.spawn_background("rules", |stop| async move {
            let mut tick = tokio::time::interval(POLL);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = tick.tick() => {}
                }
                // A file on a network may hang.
                let looked = tokio::task::spawn_blocking(move || {
                    watch.look();
                    watch
                });
                match looked.await {
                    Ok(back) => watch = back,
                    Err(error) => {
                        tracing::error!(%error, "the watch on the rules failed; they stay as they are");
                        return;
                    }
                }
            }
        });
    }
}

/// Reads `RULES_FILE` and `RULES_LAST_KNOWN_GOOD`. A file that is named, cannot be used, and of which no sound version
/// was kept, stops the start.
pub fn load(env: &mut Env) -> Result<LoadedRules, ConfigError> {
    let watched = env.get("RULES_FILE").map(PathBuf::from);
    let kept = env.get("RULES_LAST_KNOWN_GOOD").map(PathBuf::from);
    let start = source::at_start(kept.as_deref().and_then(read_kept), watched.as_deref().map(read))
        .map_err(|reason| bad("RULES_FILE", reason))?;
    let files = Files { watched, kept, keep_first: start.keep, passed_over: start.passed_over };
    Ok(LoadedRules { files: Arc::new(files), ..LoadedRules::fixed(start.rules, start.origin) })
}

struct Watch {
    path: PathBuf,
    kept: Option<PathBuf>,
    seen: Seen,
    handle: RulesHandle,
}

impl Watch {
    fn look(&mut self) {
        // Gone for a moment while a ConfigMap is exchanged, or for good: the rules stay either way.
        let Ok(stamp) = stamp(&self.path) else { return };
        if !self.seen.is_worth_reading(stamp) {
            return;
        }
        let document = match read(&self.path) {
            Ok(document) => document,
            Err(reason) => return tracing::warn!(reason, "the rules file cannot be read"),
        };
        if !self.seen.is_news(stamp, &document) {
            return;
        }
        match Rules::from_toml(&document) {
            Ok(rules) => {
                let rule_version = rules.version;
                self.handle.apply(rules, Origin::File);
                tracing::info!(rule_version, rules_origin = ?Origin::File, "new rules are in force");
                keep(self.kept.as_deref(), &Kept { origin: Origin::File, document });
            }
            Err(error) => {
                metrics::counter!("stability_rules_refused_total").increment(1);
                let rule_version = self.handle.current().version;
                tracing::error!(%error, rule_version, "the rules file was refused; the rules in force stay");
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// `None` where nothing has been kept yet.
fn read_kept(path: &Path) -> Option<Result<Kept, String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(format!("{}: {error}", path.display()))),
        Ok(text) => Some(Kept::from_text(&text).map_err(|e| format!("{}: {}", path.display(), e.message()))),
    }
}

/// Follows symbolic links, which is how a ConfigMap changes.
fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    Ok(Stamp { modified: found.modified().ok(), length: found.len(), inode: found.ino() })
}

/// A service goes on without: what it would be needed for is the next start.
fn keep(path: Option<&Path>, kept: &Kept) {
    let Some(path) = path else { return };
    let written = kept.to_text().map_err(io::Error::other).and_then(|text| replace(path, &text));
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "the rules in force could not be kept for the next start");
    }
}

/// Either the old text or the new one is there, also after a crash.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut beside = path.as_os_str().to_owned();
    // Of two processes that share a path, neither writes into the other's half.
    beside.push(format!(".{}", std::process::id()));
    let mut file = fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own, gone at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("rules-file-{}", uuid::Uuid::now_v7()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path
        }

        fn load(&self) -> Result<LoadedRules, ConfigError> {
            let paths = [("RULES_FILE", "rules.toml"), ("RULES_LAST_KNOWN_GOOD", "state/kept.toml")];
            let pairs = paths.map(|(name, path)| (name.to_owned(), self.0.join(path).display().to_string()));
            load(&mut Env::from_pairs(pairs))
        }

        fn watch(&self) -> Watch {
            Watch {
                path: self.0.join("rules.toml"),
                kept: Some(self.0.join("state/kept.toml")),
                seen: Seen::default(),
                handle: RulesHandle::new(Rules::default(), Origin::Default),
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn without_files_the_defaults_hold() {
        let loaded = load(&mut Env::from_pairs([])).unwrap();
        assert_eq!((loaded.rules, loaded.origin), (Rules::default(), Origin::Default));
    }

    #[test]
    fn a_named_file_that_is_missing_stops_the_start() {
        let error = Folder::new().load().unwrap_err();
        assert_eq!(error.variable, "RULES_FILE");
        assert!(error.reason.contains("rules.toml"), "{error}");
    }

    #[test]
    fn a_changed_file_comes_into_force_and_a_bad_one_does_not() {
        let folder = Folder::new();
        let mut watch = folder.watch();
        watch.look();
        assert_eq!(watch.handle.in_force().origin, Origin::Default, "there is no file yet");
        folder.file("rules.toml", "version = 1");
        watch.look();
        assert_eq!((watch.handle.current().version, watch.handle.in_force().origin), (1, Origin::File));
        folder.file("rules.toml", "version = 22\nverison = 3");
        watch.look();
        assert_eq!(watch.handle.current().version, 1);
        folder.file("rules.toml", "version = 333");
        watch.look();
        assert_eq!(watch.handle.current().version, 333);
    }

    #[test]
    fn a_link_that_turns_to_another_folder_is_a_change() {
        let folder = Folder::new();
        for (name, text) in [("one", "version = 1"), ("two", "version = 2")] {
            fs::create_dir(folder.0.join(name)).unwrap();
            folder.file(&format!("{name}/rules.toml"), text);
        }
        // As a ConfigMap is mounted: rules.toml → data/rules.toml, data → one.
        symlink("one", folder.0.join("data")).unwrap();
        symlink("data/rules.toml", folder.0.join("rules.toml")).unwrap();
        let mut watch = folder.watch();
        watch.look();
        assert_eq!(watch.handle.current().version, 1);
        symlink("two", folder.0.join("next")).unwrap();
        fs::rename(folder.0.join("next"), folder.0.join("data")).unwrap();
        watch.look();
        assert_eq!(watch.handle.current().version, 2);
    }

    #[test]
    fn the_last_good_rules_are_there_when_the_file_is_broken_at_the_next_start() {
        let folder = Folder::new();
        folder.file("rules.toml", "version = 7");
        folder.watch().look();
        folder.file("rules.toml", "version = 8\nverison = 8");
        let loaded = folder.load().unwrap();
        assert_eq!((loaded.rules.version, loaded.origin), (7, Origin::LastKnownGood));
        assert!(loaded.files.passed_over[0].contains("verison"), "{:?}", loaded.files.passed_over);
        fs::remove_file(folder.0.join("rules.toml")).unwrap();
        assert_eq!(folder.load().unwrap().rules.version, 7);
    }

    #[test]
    fn what_is_kept_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = Folder::new();
        let mut watch = folder.watch();
        for version in 1..4 {
            folder.file("rules.toml", &format!("version = {version}{}", "\n#".repeat(version)));
            watch.look();
        }
        let kept = read_kept(&folder.0.join("state/kept.toml")).unwrap().unwrap();
        assert_eq!(kept.document, "version = 3\n#\n#\n#");
        assert_eq!(fs::read_dir(folder.0.join("state")).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_stops_nothing() {
        let folder = Folder::new();
        folder.file("rules.toml", "version = 7");
        folder.file("state", "a file where a folder should be");
        let mut watch = folder.watch();
        watch.look();
        assert_eq!(watch.handle.current().version, 7);
    }
}
