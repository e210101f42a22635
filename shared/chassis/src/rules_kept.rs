//! The last known good rules on disk.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use rules::source::Kept;

/// `RULES_LAST_KNOWN_GOOD`: where the last rules in force are kept. Unset: they are not, since no place is right
/// everywhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf(pub Option<PathBuf>);

impl Shelf {
    /// `None` where nothing has been kept yet.
    pub fn read(&self) -> Option<Result<Kept, String>> {
        let path = self.0.as_deref()?;
        match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(format!("{}: {error}", path.display()))),
            Ok(text) => Some(Kept::from_text(&text).map_err(|e| format!("{}: {}", path.display(), e.message()))),
        }
    }

    /// A service goes on without: what it would be needed for is the next start.
    pub fn keep(&self, kept: &Kept) {
        let Some(path) = self.0.as_deref() else { return };
        let written = kept.to_text().map_err(io::Error::other).and_then(|text| replace(path, &text));
        if let Err(error) = written {
            tracing::warn!(%error, path = %path.display(), "the rules in force could not be kept for the next start");
        }
    }

    /// The next start is to begin without.
    pub fn clear(&self) {
        let Some(path) = self.0.as_deref() else { return };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "rules that were taken back are still kept");
            }
            _ => {}
        }
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
