//! Convolution: the sliding window, channels, im2col in four steps, the matrix that is never made.

use warpfold_device::Device;

use super::Error;
use super::canvas::Canvas;

/// The image of the pictures, and its filter.
const IMAGE: [i32; 16] = [1, 2, 0, 3, 4, 1, 2, 1, 0, 3, 1, 2, 2, 1, 0, 1];
const FILTER: [i32; 9] = [1, 0, -1, 2, 0, -2, 1, 0, -1];
const SIDE: usize = 4;

/// Elements of the image under the filter at a place of the result, in the order of the filter.
fn under(row: usize, column: usize) -> [usize; 9] {
    std::array::from_fn(|i| (row + i / 3) * SIDE + column + i % 3)
}

fn result(row: usize, column: usize) -> i32 {
    under(row, column).iter().zip(FILTER).map(|(at, weight)| IMAGE[*at] * weight).sum()
}

const PLACES: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// A small matrix; `class` says what colour each element has.
fn matrix(
    picture: &mut Canvas,
    (x, y): (i32, i32),
    columns: usize,
    numbers: &[i32],
    class: impl Fn(usize) -> &'static str,
) {
    for (i, number) in numbers.iter().enumerate() {
        let place = (x + 22 * (i % columns) as i32, y + 22 * (i / columns) as i32);
        picture.cell(place, (21, 21), class(i), &number.to_string());
    }
}

pub(super) fn window(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("A filter of 3 x 3 slides over an image of 4 x 4: 2 x 2 results");
    let y = picture.top;
    for (step, (row, column)) in (0..).zip(PLACES) {
        let (x, at) = (10 + 194 * (step % 2), y + 118 * (step / 2));
        let covered = under(row, column);
        matrix(&mut picture, (x, at), SIDE, &IMAGE, |i| if covered.contains(&i) { "k2" } else { "p" });
        picture.arrow((x + 92, at + 44), (x + 112, at + 44), "l");
        let values: Vec<i32> = PLACES.iter().map(|(row, column)| result(*row, *column)).collect();
        for (i, value) in values.iter().enumerate() {
            let class = if i == step as usize { "k3" } else { "p" };
            let word = if i <= step as usize { value.to_string() } else { String::new() };
            picture.cell((x + 118 + 24 * (i % 2) as i32, at + 21 + 22 * (i / 2) as i32), (23, 21), class, &word);
        }
    }
    let at = y + 232;
    picture.text(10, at + 34, "", "filter");
    matrix(&mut picture, (56, at), 3, &FILTER, |_| "k1");
    let terms: Vec<String> =
        under(0, 0).iter().zip(FILTER).filter(|(_, w)| *w != 0).map(|(i, w)| format!("{w}·{}", IMAGE[*i])).collect();
    picture.text(136, at + 22, "s", "the first result:");
    picture.text(136, at + 37, "s", &format!("{} = {}", terms.join(" + ").replace("+ -", "− "), result(0, 0)));
    picture.text(136, at + 52, "s q", "out_h = (4 + 2·0 − 3) / 1 + 1 = 2");
    Ok(picture.end())
}

pub(super) fn channels(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Channels: every filter has one slice for each channel, and gives one channel");
    let y = picture.top;
    let stack = |picture: &mut Canvas, (x, y): (i32, i32), (w, h): (i32, i32), classes: &[&str]| {
        for (i, class) in classes.iter().enumerate().rev() {
            picture.rect((x + 7 * i as i32, y - 7 * i as i32), (w, h), class, "");
        }
    };
    let rgb = ["k4", "k3", "k1"];
    stack(&mut picture, (14, y + 50), (80, 80), &rgb);
    picture.text(14, y + 148, "s", "image: c = 3, h x w");
    for filter in 0..2 {
        let at = y + 30 + 62 * filter;
        stack(&mut picture, (150, at + 14), (34, 34), &rgb);
        picture.arrow((116, y + 84), (146, at + 30), "l");
        picture.arrow((204, at + 26), (252, y + 60 + 40 * filter), "l");
    }
    picture.text(140, y + 148, "s", "k = 2 filters: c x r x s");
    stack(&mut picture, (262, y + 50), (66, 66), &["k2", "k5"]);
    picture.text(270, y + 148, "s", "result: k = 2 channels");
    let lines = [
        "y[n, k, i, j] = Σ over c, r, s of",
        "        x[n, c, i·u − p + r, j·v − q + s] · w[k, c, r, s]",
        "n images, strides u and v, p and q zeros around each image",
    ];
    picture.paragraph(10, y + 172, "s", &lines);
    Ok(picture.end())
}

pub(super) fn im2col(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("im2col: what the filter covers becomes a column, place after place");
    let y = picture.top;
    for (step, (row, column)) in (0..).zip(PLACES) {
        let x = 8 + 98 * step;
        let covered = under(row, column);
        matrix(&mut picture, (x, y), SIDE, &IMAGE, |i| if covered.contains(&i) { "k2" } else { "p" });
        picture.text(x + 44, y + 102, "m s q", &format!("step {}", step + 1));
    }
    let at = y + 118;
    picture.text(10, at + 8, "s", "9 rows, a column per result");
    for (step, (row, column)) in (0..).zip(PLACES) {
        for (i, place) in (0..).zip(under(row, column)) {
            let class = ["k1", "k3", "k5", "k4"][step as usize];
            picture.cell((214 + 26 * step, at + 14 + 19 * i), (25, 18), class, &IMAGE[place].to_string());
        }
        picture.text(226 + 26 * step, at + 10, "m s q", &(step + 1).to_string());
        picture.cell((214 + 26 * step, at + 196), (25, 18), "k3", &result(row, column).to_string());
    }
    for (i, weight) in (0..).zip(FILTER) {
        picture.cell((10 + 22 * i, at + 196), (21, 18), "k2", &weight.to_string());
    }
    picture.text(10, at + 188, "s", "the filter as a row");
    picture.text(322, at + 209, "s", "= the result");
    let lines = ["An element is copied up to 9 times:", "16 numbers became 36."];
    picture.paragraph(10, at + 40, "s q", &lines);
    Ok(picture.end())
}

pub(super) fn implicit(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Implicit GEMM: the indices of the matrix say where in the image to read");
    let y = picture.top;
    picture.cell((10, y + 70), (90, 60), "k2", "filters");
    picture.text(55, y + 146, "m s", "M = k");
    picture.text(55, y + 62, "m s", "K = c · r · s");
    picture.rect((150, y + 14), (160, 110), "e", "");
    picture.text(186, y + 40, "m s", "never in");
    picture.text(186, y + 54, "m s", "memory");
    picture.text(230, y + 8, "m s", "N = n · out_h · out_w");
    picture.text(318, y + 70, "s", "K");
    picture.rect((222, y + 14), (10, 110), "k1", "");
    picture.rect((150, y + 84), (160, 8), "k5", "");
    picture.rect((222, y + 84), (10, 8), "a", "");
    picture.rect((150, y + 140), (160, 50), "k3", "");
    picture.text(186, y + 170, "m s", "result");
    picture.rect((222, y + 140), (10, 50), "k1", "");
    let lines = [
        "column j:  image = j / (out_h·out_w), pixel = j % (out_h·out_w)",
        "              oh = pixel / out_w, ow = pixel % out_w",
        "row l:      ic = l / (r·s), fh = l % (r·s) / s, fw = l % s",
        "x[image, ic, oh·u − p + fh, ow·v − q + fw], zero outside",
    ];
    picture.paragraph(10, y + 212, "s", &lines);
    Ok(picture.end())
}
