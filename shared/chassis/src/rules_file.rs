//! Rules at start: the file named by `RULES_FILE`, or the built-in defaults.

use std::path::{Path, PathBuf};

use rules::{Origin, Rules};

use crate::env::{ConfigError, Env, bad};

/// The rules in force, and where they came from.
#[derive(Debug, Clone)]
pub struct LoadedRules {
    pub rules: Rules,
    pub origin: Origin,
}

/// A file that is named and cannot be used stops the start: silently running on defaults would surprise somebody.
pub fn load(env: &mut Env) -> Result<LoadedRules, ConfigError> {
    match env.get("RULES_FILE") {
        None => Ok(LoadedRules { rules: Rules::default(), origin: Origin::Default }),
        Some(path) => {
            let rules = read(&PathBuf::from(path)).map_err(|reason| bad("RULES_FILE", reason))?;
            Ok(LoadedRules { rules, origin: Origin::File })
        }
    }
}

fn read(path: &Path) -> Result<Rules, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Rules::from_toml(&text).map_err(|e| format!("{}: {e}", path.display()))
}
