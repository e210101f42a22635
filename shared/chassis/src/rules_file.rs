//! Rules from files: which ones to start with, and the watch on `RULES_FILE`.
//!
//! What to do with what is read is decided in [`rules::source`] and at the `rules_desk`; here is the reading. A file that
//! changes comes into force without a restart once it is valid; a bad one is refused with everything that is wrong with
//! it, and the rules in force stay.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rules::{
    Origin, Rules, RulesHandle,
    source::{self, Own, Seen, Stamp},
};

use crate::{
    Lifecycle,
    env::{ConfigError, Env, bad},
    rules_desk::Desk,
    rules_kept::Shelf,
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
    pub(crate) desk: Arc<Desk>,
    /// `RULES_FILE`
    watched: Option<PathBuf>,
    passed_over: Vec<String>,
}

impl LoadedRules {
    /// Rules that come from no file and that no file changes.
    #[must_use]
    pub fn fixed(rules: Rules, origin: Origin) -> Self {
        let own = Own { rules: rules.clone(), origin, document: None };
        Self::on(rules, origin, own, Shelf::default())
    }

    fn on(rules: Rules, origin: Origin, own: Own, shelf: Shelf) -> Self {
        let handle = RulesHandle::new(rules.clone(), origin);
        let is_ruled = origin == Origin::LastKnownGood && own.origin != Origin::LastKnownGood;
        let desk = Arc::new(Desk::new(handle.clone(), shelf, own, is_ruled));
        Self { rules, origin, handle, desk, watched: None, passed_over: Vec::new() }
    }

    /// What came into force before anything was built is what the process starts with.
    pub(crate) fn catch_up(&mut self) {
        let in_force = self.handle.in_force();
        (self.rules, self.origin) = ((*in_force.rules).clone(), in_force.origin);
    }

    /// Takes care of the files from now until shutdown.
    pub fn watch(&self, lifecycle: &Lifecycle) {
        for reason in &self.passed_over {
            tracing::error!(reason, rules_origin = ?self.origin, "rules that cannot be used were passed over");
        }
        self.desk.begin();
        let Some(path) = self.watched.clone() else { return };
        // What the process started with is no news.
        let mut watch = Watch { path, seen: Seen::with(self.desk.of_file()), desk: self.desk.clone() };
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
    let shelf = Shelf(env.get("RULES_LAST_KNOWN_GOOD").map(PathBuf::from));
    let start =
        source::at_start(shelf.read(), watched.as_deref().map(read)).map_err(|reason| bad("RULES_FILE", reason))?;
    let passed_over = start.passed_over;
    Ok(LoadedRules { watched, passed_over, ..LoadedRules::on(start.rules, start.origin, start.own, shelf) })
}

struct Watch {
    path: PathBuf,
    seen: Seen,
    desk: Arc<Desk>,
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
            Ok(rules) => self.desk.file_says(document, rules),
            Err(error) => {
                metrics::counter!("stability_rules_refused_total").increment(1);
                let rule_version = self.desk.handle.current().version;
                tracing::error!(%error, rule_version, "the rules file was refused; the rules in force stay");
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Follows symbolic links, which is how a ConfigMap changes.
fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    Ok(Stamp { modified: found.modified().ok(), length: found.len(), inode: found.ino() })
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
            let own = Own { rules: Rules::default(), origin: Origin::Default, document: None };
            let loaded = LoadedRules::on(Rules::default(), Origin::Default, own, self.shelf());
            Watch { path: self.0.join("rules.toml"), seen: Seen::default(), desk: loaded.desk }
        }

        fn shelf(&self) -> Shelf {
            Shelf(Some(self.0.join("state/kept.toml")))
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
        assert_eq!(watch.desk.handle.in_force().origin, Origin::Default, "there is no file yet");
        folder.file("rules.toml", "version = 1");
        watch.look();
        assert_eq!((watch.desk.handle.current().version, watch.desk.handle.in_force().origin), (1, Origin::File));
        folder.file("rules.toml", "version = 22\nverison = 3");
        watch.look();
        assert_eq!(watch.desk.handle.current().version, 1);
        folder.file("rules.toml", "version = 333");
        watch.look();
        assert_eq!(watch.desk.handle.current().version, 333);
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
        assert_eq!(watch.desk.handle.current().version, 1);
        symlink("two", folder.0.join("next")).unwrap();
        fs::rename(folder.0.join("next"), folder.0.join("data")).unwrap();
        watch.look();
        assert_eq!(watch.desk.handle.current().version, 2);
    }

    #[test]
    fn the_last_good_rules_are_there_when_the_file_is_broken_at_the_next_start() {
        let folder = Folder::new();
        folder.file("rules.toml", "version = 7");
        folder.watch().look();
        folder.file("rules.toml", "version = 8\nverison = 8");
        let loaded = folder.load().unwrap();
        assert_eq!((loaded.rules.version, loaded.origin), (7, Origin::LastKnownGood));
        assert!(loaded.passed_over[0].contains("verison"), "{:?}", loaded.passed_over);
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
        let kept = folder.shelf().read().unwrap().unwrap();
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
        assert_eq!(watch.desk.handle.current().version, 7);
    }
}
