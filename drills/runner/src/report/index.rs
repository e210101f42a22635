//! The summary of several drills, which leads to their pages.

use std::fmt::Write;

use super::{
    html::{self, text},
    page::word,
};
use crate::{
    batch::{self, Row},
    probe::Figure,
};

#[must_use]
pub fn index(rows: &[Row]) -> String {
    let held = rows.iter().filter(|row| row.verdict.exit_code() == 0).count();
    let other = batch::beside(rows);
    let mut body = format!("<h1>Drills</h1>\n<p>{held} of {} passed.</p>\n<div class=\"wide\"><table>\n", rows.len());
    body.push_str("<tr><th>drill</th><th>verdict</th>");
    if let Some(guards) = other {
        body.push_str(&format!("<th>{}</th>", guards.as_str()));
    }
    body.push_str("<th class=\"number\">seconds</th><th>why</th></tr>\n");
    for row in rows {
        let id = text(&row.id);
        let link = match &row.report {
            Some(page) => format!("<a href=\"{}\">{id}</a>", text(page)),
            None => id.to_string(),
        };
        let without = row.beside.map(|(_, verdict)| word(verdict)).unwrap_or_default();
        let without = if other.is_some() { format!("<td>{without}</td>") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<tr><td>{link}<br><span class=\"quiet\">{}</span></td><td>{}</td>{without}\
             <td class=\"number\">{}</td><td>{}</td></tr>",
            text(&row.title),
            word(row.verdict),
            Figure(row.seconds.round()),
            text(&row.headline)
        );
    }
    body.push_str("</table></div>\n");
    html::page("Drills", &body)
}
