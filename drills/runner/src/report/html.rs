//! Text that others wrote, made harmless in a page.

use std::fmt;

/// Shown as it is, whatever is in it.
pub struct Escaped<'a>(&'a str);

#[must_use]
pub const fn text(text: &str) -> Escaped<'_> {
    Escaped(text)
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['&', '<', '>', '"', '\'']) {
            let (plain, special) = match part.chars().last() {
                Some('&') => (&part[..part.len() - 1], "&amp;"),
                Some('<') => (&part[..part.len() - 1], "&lt;"),
                Some('>') => (&part[..part.len() - 1], "&gt;"),
                Some('"') => (&part[..part.len() - 1], "&quot;"),
                Some('\'') => (&part[..part.len() - 1], "&#39;"),
                _ => (part, ""),
            };
            f.write_str(plain)?;
            f.write_str(special)?;
        }
        Ok(())
    }
}

/// A whole page, in need of nothing else.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    let (style, colours) = (include_str!("style.css"), super::palette::style_sheet());
    let title = text(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{colours}{style}</style>\n<body>\n{body}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_a_mark() {
        let shown = text("a<b> & \"c\" 'd' → é").to_string();
        assert_eq!(shown, "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39; → é");
        assert_eq!(text("").to_string(), "");
    }

    #[test]
    fn a_page_asks_for_no_other_file_and_runs_no_script() {
        let page = page("a & b", "<p>x</p>");
        assert!(page.contains("<title>a &amp; b</title>") && page.contains("<p>x</p>"));
        for asset in ["src=", "url(", "@import", "<link", "<script"] {
            assert!(!page.contains(asset), "{asset}");
        }
    }
}
