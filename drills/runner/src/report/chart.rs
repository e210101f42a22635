//! One picture: curves, bars or bands over the time of the load, with the faults shaded.

use anyhow::{Result, anyhow};
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::{
        Cartesian2d, ChartBuilder, ChartContext, Circle, Color, DrawingArea, IntoDrawingArea, IntoFont, LineSeries,
        Rectangle, SVGBackend, TRANSPARENT, Text, TextStyle,
    },
    series::DashedLineSeries,
};

use super::palette::Role;

/// What is drawn in it.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    pub layers: Vec<Layer>,
    pub bands: Vec<Row>,
}

/// A curve, in one of the ways to draw one.
#[derive(Debug, Clone)]
pub struct Layer {
    pub role: Role,
    pub form: Form,
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Line,
    Dashed,
    /// A second wide, on top of the bars of the layers before.
    Bar,
}

/// A line of bands, under its name.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    pub bands: Vec<Band>,
}

#[derive(Debug, Clone)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    pub role: Role,
    pub text: String,
}

/// A time that is shaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shade {
    pub from: f64,
    pub to: f64,
}

/// What two pictures that are to be compared have in common.
#[derive(Debug, Clone)]
pub struct Frame {
    /// For those who do not see it.
    pub label: String,
    /// How far the axis at the bottom goes, and of what it is.
    pub length: f64,
    pub axis: Axis,
    /// The highest value that there is room for.
    pub top: f64,
    pub scale: Scale,
    pub shades: Vec<Shade>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Seconds. Points that are further apart than [`GAP`] belong to a silence.
    Time,
    /// Requests a second. Points are as far apart as the steps of the load.
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Decades, from 1 on: for what may be a thousand times as much at other times.
    Decades,
    /// 0 to 1, in per cent.
    Share,
}

const WIDTH: u32 = 760;
const HEIGHT: u32 = 220;
const ROW: u32 = 36;
const FOOT: u32 = 24;
const SIDE: u32 = 52;
const GAP: f64 = 2.5;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The picture as an `svg` element without a size of its own.
pub fn draw(frame: &Frame, drawing: &Drawing) -> Result<String> {
    let mut svg = String::new();
    let rows = u32::try_from(drawing.bands.len()).unwrap_or(u32::MAX);
    let height = if rows == 0 { HEIGHT } else { rows.saturating_mul(ROW).saturating_add(FOOT + 12) };
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let drawn = if rows == 0 { curves(&area, frame, drawing) } else { bands(&area, frame, drawing) };
        drawn.and_then(|()| area.present().map_err(broken))?;
    }
    let (_, body) = svg.split_once('>').ok_or_else(|| anyhow!("a picture without an element"))?;
    let label = super::html::text(&frame.label);
    Ok(format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">{body}"))
}

fn curves(area: &Area<'_>, frame: &Frame, drawing: &Drawing) -> Result<()> {
    let top = place(frame.scale, frame.top).max(f64::MIN_POSITIVE);
    let mut chart = start(area, frame, SIDE, top)?;
    let format = |value: &f64| match frame.scale {
        Scale::Linear if frame.top < 5.0 => format!("{value:.1}"),
        Scale::Linear => format!("{value:.0}"),
        Scale::Decades => format!("{:.0}", 10_f64.powf(*value)),
        Scale::Share => format!("{:.0} %", value * 100.0),
    };
    let lines = if frame.scale == Scale::Decades { top.ceil() as usize + 1 } else { 5 };
    mesh(&mut chart, frame.axis, lines, &format)?;
    let mut below = vec![0.0; frame.length as usize + 1];
    for layer in &drawing.layers {
        let style = layer.role.colour().stroke_width(2);
        let placed = layer.points.iter().map(|(at, value)| (*at, place(frame.scale, *value).min(top)));
        let placed: Vec<(f64, f64)> = placed.collect();
        if layer.form == Form::Bar {
            let bars = placed.iter().filter_map(|(at, value)| {
                let floor = below.get_mut(*at as usize).filter(|_| *value > 0.0)?;
                let bar =
                    Rectangle::new([(at - 0.42, *floor), (at + 0.42, *floor + value)], layer.role.colour().filled());
                *floor += value;
                Some(bar)
            });
            chart.draw_series(bars).map_err(broken)?;
            continue;
        }
        for piece in placed.chunk_by(|a, b| frame.axis == Axis::Rate || b.0 - a.0 <= GAP) {
            match (piece, layer.form) {
                ([alone], _) => {
                    chart.draw_series([Circle::new(*alone, 2, layer.role.colour().filled())]).map_err(broken)?;
                }
                (_, Form::Dashed) => {
                    let dashed = DashedLineSeries::new(ends(piece), 6, 5, layer.role.colour().stroke_width(1));
                    chart.draw_series(dashed).map_err(broken)?;
                }
                _ => {
                    chart.draw_series(LineSeries::new(piece.iter().copied(), style)).map_err(broken)?;
                }
            }
        }
    }
    Ok(())
}

fn bands(area: &Area<'_>, frame: &Frame, drawing: &Drawing) -> Result<()> {
    let rows = drawing.bands.len() as f64;
    // Their names need no room at the side, but the time is to stand where it stands in the other pictures.
    let mut chart = start(area, frame, SIDE, rows)?;
    mesh(&mut chart, frame.axis, 0, &|_| String::new())?;
    for (row, number) in drawing.bands.iter().rev().zip(0_u32..) {
        let floor = f64::from(number);
        let boxes = row.bands.iter().map(|band| {
            let colour = band.role.colour().mix(0.75);
            Rectangle::new([(band.from, floor + 0.1), (band.to, floor + 0.48)], colour.filled())
        });
        chart.draw_series(boxes).map_err(broken)?;
        let texts = row.bands.iter().filter(|band| !band.text.is_empty());
        let texts = texts.map(|band| Text::new(band.text.clone(), (band.from, floor + 0.46), written(11)));
        chart.draw_series(texts).map_err(broken)?;
        chart.draw_series([Text::new(row.name.clone(), (0.0, floor + 0.94), written(13))]).map_err(broken)?;
    }
    Ok(())
}

/// Axes, with the faults shaded below all else.
fn start<'a, 'b>(area: &'a Area<'b>, frame: &Frame, side: u32, top: f64) -> Result<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(4)
        .margin_right(10)
        .x_label_area_size(FOOT)
        .y_label_area_size(side)
        .build_cartesian_2d(0.0..frame.length, 0.0..top)
        .map_err(broken)?;
    let shade = Role::Fault.colour().mix(0.16);
    let shades = frame.shades.iter().map(|s| Rectangle::new([(s.from, 0.0), (s.to, top)], shade.filled()));
    chart.draw_series(shades).map_err(broken)?;
    Ok(chart)
}

fn mesh(chart: &mut Chart<'_, '_>, axis: Axis, lines: usize, format: &dyn Fn(&f64) -> String) -> Result<()> {
    let grid = Role::Grid.colour();
    let unit = match axis {
        Axis::Time => " s",
        Axis::Rate => "/s",
    };
    let along = |at: &f64| format!("{at:.0}{unit}");
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(grid).axis_style(grid);
    if lines == 0 {
        mesh.disable_y_mesh();
    }
    mesh.label_style(written(13)).x_labels(10).y_labels(lines);
    mesh.x_label_formatter(&along).y_label_formatter(&format);
    mesh.draw().map_err(broken)
}

fn written(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&Role::Ink.colour())
}

fn place(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Decades => value.max(1.0).log10(),
        Scale::Linear | Scale::Share => value,
    }
}

/// A level that stays is a line from end to end, however often it was looked at.
fn ends(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let inner = |n: usize| n > 0 && n + 1 < points.len();
    let stays = |n: usize| inner(n) && points[n - 1].1 == points[n].1 && points[n].1 == points[n + 1].1;
    points.iter().enumerate().filter(|(n, _)| !stays(*n)).map(|(_, point)| *point).collect()
}

fn broken(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(scale: Scale, top: f64) -> Frame {
        let shades = vec![Shade { from: 10.0, to: 20.0 }];
        Frame { label: "a <b> & \"c\"".to_owned(), length: 40.0, axis: Axis::Time, top, scale, shades }
    }

    fn layer(form: Form, points: &[(f64, f64)]) -> Layer {
        Layer { role: Role::Blue, form, points: points.to_vec() }
    }

    fn drawn(scale: Scale, top: f64, layers: Vec<Layer>) -> String {
        draw(&frame(scale, top), &Drawing { layers, bands: Vec::new() }).unwrap()
    }

    /// Every `attribute="…"` of the elements that have it.
    fn values<'a>(svg: &'a str, attribute: &str) -> Vec<&'a str> {
        let mark = format!(" {attribute}=\"");
        svg.split(&mark).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn a_picture_scales_says_what_it_is_and_escapes_it() {
        let svg = drawn(Scale::Linear, 10.0, vec![layer(Form::Line, &[(0.5, 1.0), (1.5, 2.0)])]);
        assert!(
            svg.starts_with(
                "<svg viewBox=\"0 0 760 220\" role=\"img\" aria-label=\"a &lt;b&gt; &amp; &quot;c&quot;\">"
            )
        );
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn the_time_of_a_fault_is_shaded_over_the_whole_height_at_its_place() {
        let svg = drawn(Scale::Linear, 10.0, Vec::new());
        let shade = svg.lines().find(|line| line.contains("<rect") && line.contains("#E25022")).unwrap();
        let number = |attribute| values(shade, attribute)[0].parse::<f64>().unwrap();
        let plot = f64::from(WIDTH - SIDE - 14);
        // From a quarter of the axis to its half.
        assert!((number("x") - (f64::from(SIDE + 4) + plot / 4.0)).abs() < 4.0, "{shade}");
        assert!((number("width") - plot / 4.0).abs() < 4.0, "{shade}");
        assert!(number("height") > f64::from(HEIGHT) * 0.8, "{shade}");
    }

    #[test]
    fn only_colours_that_the_style_sheet_knows_are_drawn_with() {
        let points = [(0.5, 1.0), (1.5, 20.0), (9.5, 3.0)];
        let layers = [Form::Bar, Form::Line, Form::Dashed].map(|form| layer(form, &points)).to_vec();
        let rows = vec![Row {
            name: "order → payment".to_owned(),
            bands: vec![Band { from: 0.0, to: 3.0, role: Role::Red, text: "30 %".to_owned() }],
        }];
        let bands = draw(&frame(Scale::Linear, 1.0), &Drawing { layers: Vec::new(), bands: rows }).unwrap();
        let known: Vec<String> = Role::ALL
            .iter()
            .map(|role| {
                let plotters::style::RGBColor(r, g, b) = role.colour();
                format!("#{r:02X}{g:02X}{b:02X}")
            })
            .collect();
        let svg = drawn(Scale::Decades, 5_000.0, layers) + &bands;
        for colour in values(&svg, "fill").into_iter().chain(values(&svg, "stroke")) {
            assert!(colour == "none" || known.iter().any(|k| k == colour), "{colour}");
        }
        assert!(svg.contains("order → payment") && svg.contains("30 %"));
    }

    #[test]
    fn bars_stand_on_each_other() {
        let bars = vec![layer(Form::Bar, &[(0.5, 4.0)]), layer(Form::Bar, &[(0.5, 4.0)])];
        let svg = drawn(Scale::Linear, 8.0, bars);
        let rects = svg.lines().filter(|line| line.contains("<rect") && line.contains("#006FAF"));
        let mut ys: Vec<i32> = rects.map(|rect| values(rect, "y")[0].parse().unwrap()).collect();
        ys.sort_unstable();
        assert!(ys.len() == 2 && ys[1] - ys[0] > 80, "{ys:?}");
    }

    #[test]
    fn a_silence_is_not_bridged_by_a_line() {
        let svg =
            drawn(Scale::Linear, 10.0, vec![layer(Form::Line, &[(0.0, 1.0), (1.0, 1.0), (9.0, 1.0), (9.5, 1.0)])]);
        let lines = svg.lines().filter(|line| line.contains("<polyline") && line.contains("#006FAF"));
        assert_eq!(lines.count(), 2);
    }

    #[test]
    fn steps_of_the_load_are_joined_however_far_apart_they_are_and_the_axis_is_of_rates() {
        let frame = Frame { axis: Axis::Rate, ..frame(Scale::Linear, 10.0) };
        let layers = vec![layer(Form::Line, &[(5.0, 1.0), (10.0, 2.0), (40.0, 3.0)])];
        let svg = draw(&frame, &Drawing { layers, bands: Vec::new() }).unwrap();
        let lines = svg.lines().filter(|line| line.contains("<polyline") && line.contains("#006FAF"));
        assert_eq!(lines.count(), 1);
        assert!(svg.contains("20/s") && !svg.contains("20 s"), "{svg}");
    }

    #[test]
    fn what_is_beyond_the_top_is_drawn_at_the_top() {
        let inside = drawn(Scale::Linear, 10.0, vec![layer(Form::Line, &[(0.0, 10.0), (1.0, 10.0)])]);
        let beyond = drawn(Scale::Linear, 10.0, vec![layer(Form::Line, &[(0.0, 99.0), (1.0, 99.0)])]);
        assert_eq!(inside, beyond);
    }
}
