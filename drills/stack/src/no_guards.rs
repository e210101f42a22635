//! `up --no-guards`: which rules the services get then, and that nobody else finds them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use contracts::Service;
use rules::Rules;
use unguarded::without_guards;

use crate::layout::Layout;

/// Writes what becomes of the rules that `RULES_FILE` names, or of the defaults, and says where.
pub fn write(layout: &Layout) -> Result<PathBuf> {
    let named = env::var_os("RULES_FILE").map(PathBuf::from);
    let rules = match &named {
        None => Rules::default(),
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Rules::from_toml(&text).with_context(|| format!("{} is refused", file.display()))?
        }
    };
    let rules = without_guards(rules);
    if let Some(wrong) = rules.violations().first() {
        bail!("these rules cannot do without guards: {wrong}");
    }
    let folder = folder(layout);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("rules.toml");
    let text = toml::to_string(&rules).context("cannot write the rules")?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Has a service begin with `file`, and keep its last known good rules apart: they must not be found by a system that
/// is to have its guards.
pub fn wire(env: &mut Vec<(&'static str, String)>, layout: &Layout, file: &Path, service: Service, replica: u16) {
    // Nor do they follow the console, whose rules are for a system that has them.
    env.retain(|(name, _)| !["RULES_FILE", "RULES_LAST_KNOWN_GOOD", "CONSOLE_URL"].contains(name));
    let kept = folder(layout).join(format!("{service}-{replica}.toml"));
    env.push(("RULES_FILE", file.display().to_string()));
    env.push(("RULES_LAST_KNOWN_GOOD", kept.display().to_string()));
}

fn folder(layout: &Layout) -> PathBuf {
    layout.dir.join("rules").join("no-guards")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_guards_keeps_its_rules_where_one_with_guards_does_not_look() {
        let layout = Layout { base: 9080, dir: "/checkout/target/dev/9080".into() };
        let with_guards = layout.last_rules("order", 1).display().to_string();
        let mut env = vec![("API_ADDR", "a".to_owned()), ("RULES_LAST_KNOWN_GOOD", with_guards.clone())];
        wire(&mut env, &layout, Path::new("/x/rules.toml"), Service::Order, 1);
        let of =
            |name: &str| env.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.clone()).collect::<Vec<_>>();
        assert_eq!(of("RULES_FILE"), ["/x/rules.toml"]);
        assert_eq!(of("RULES_LAST_KNOWN_GOOD").len(), 1);
        assert_ne!(of("RULES_LAST_KNOWN_GOOD"), [with_guards]);
        assert_eq!(of("API_ADDR"), ["a"]);
    }
}
