//! Attention: the order of tiles in flash attention 1 and 2, one step of it, a query and pages.

use warpfold_device::Device;

use super::Error;
use super::canvas::{Canvas, WIDTH};

pub(super) fn loops(_: &Device) -> Result<String, Error> {
    const TILES: i32 = 4;
    let mut picture = Canvas::new("The order of tiles of scores: flash attention 1 and 2");
    let y = picture.top;
    for (left, name, outer, by_keys) in
        [(10, "flash1", "outer loop: keys and values", true), (208, "flash2", "outer loop: queries", false)]
    {
        picture.text(left, y + 8, "h", name);
        picture.text(left + 46, y + 8, "q s", outer);
        for i in 0..TILES {
            picture.text(left + 22, y + 52 + 32 * i, "n s", &format!("Q{i}"));
            picture.text(left + 43 + 32 * i, y + 28, "m s", &format!("K{i}"));
        }
        for (row, column) in (0..TILES).flat_map(|row| (0..TILES).map(move |column| (row, column))) {
            let number = if by_keys { column * TILES + row } else { row * TILES + column };
            let class = ["k1", "k3", "k2", "k5"][(number / TILES) as usize];
            picture.cell((left + 28 + 32 * column, y + 34 + 32 * row), (30, 30), class, &(number + 1).to_string());
        }
        let (o_reads, o_writes) = if by_keys { (TILES * TILES, TILES * TILES) } else { (0, TILES) };
        let kv = if by_keys { TILES } else { TILES * TILES };
        let q = if by_keys { TILES * TILES } else { TILES };
        let lines = [
            format!("tiles of O read {o_reads}, written {o_writes}"),
            format!("tiles of Q read {q}, of K and V {kv}"),
            if by_keys { "O, m, l go to memory and back".to_owned() } else { "O, m, l stay in registers".to_owned() },
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        picture.paragraph(left, y + 182, "s", &lines);
    }
    picture.text(10, y + 232, "q s", "Numbers: the order. In flash2 a row of tiles is a block.");
    Ok(picture.end())
}

pub(super) fn tile(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("One step: Br queries meet Bc keys; nothing of size N x N is stored");
    let y = picture.top;
    picture.rect((10, y + 62), (40, 150), "p", "");
    picture.cell((10, y + 92), (40, 44), "k1", "Q_i");
    picture.text(30, y + 226, "m s", "N x d");
    picture.rect((72, y + 10), (180, 40), "p", "");
    picture.cell((132, y + 10), (50, 40), "k2", "K_jᵀ");
    picture.text(258, y + 34, "s", "d x N");
    picture.rect((72, y + 62), (180, 150), "e", "");
    picture.cell((132, y + 92), (50, 44), "k3", "S_ij");
    picture.text(162, y + 84, "m s q", "Br x Bc, on chip");
    picture.text(162, y + 200, "m s q", "the other scores are not there");
    picture.rect((270, y + 62), (40, 150), "p", "");
    picture.cell((270, y + 92), (40, 44), "k5", "O_i");
    picture.text(290, y + 226, "m s", "N x d");
    picture.cell((316, y + 92), (22, 44), "k4", "m");
    picture.cell((340, y + 92), (22, 44), "k4", "l");
    picture.text(339, y + 150, "m s q", "a row each");
    picture.rect((WIDTH - 24, y + 10), (14, 180), "p", "");
    picture.cell((WIDTH - 24, y + 70), (14, 50), "k2", "V");
    let lines = [
        "S = Q_i K_jᵀ / √d",
        "m' = max(m, rowmax S)     P = exp(S − m')",
        "l  ← exp(m − m') l + rowsum P",
        "O_i ← exp(m − m') O_i + P V_j     at the end O_i / l",
    ];
    picture.paragraph(10, y + 250, "", &lines);
    Ok(picture.end())
}

/// A sequence of ten tokens in blocks of four.
const TOKENS: [&str; 10] = ["Once", "upon", "a", "time", "there", "was", "a", "great", "giant", "who"];

pub(super) fn paged(_: &Device) -> Result<String, Error> {
    const BLOCK: usize = 4;
    const TABLE: [usize; 3] = [7, 1, 3];
    let mut picture = Canvas::new("Paged attention: the query of one token meets blocks that lie anywhere");
    let y = picture.top;
    picture.text(10, y + 8, "s", "block table");
    for (logical, physical) in TABLE.into_iter().enumerate() {
        picture.cell((10, y + 14 + 22 * logical as i32), (40, 20), "k0", &logical.to_string());
        picture.cell((52, y + 14 + 22 * logical as i32), (40, 20), "k2", &physical.to_string());
    }
    picture.text(10, y + 94, "s q", "logical, physical");
    picture.text(120, y + 8, "s", "cache: blocks of 4 tokens");
    for physical in 0..8_usize {
        let at = y + 14 + 20 * physical as i32;
        let logical = TABLE.iter().position(|block| *block == physical);
        picture.text(132, at + 13, "n s q", &physical.to_string());
        for slot in 0..BLOCK {
            let token = logical.and_then(|logical| TOKENS.get(BLOCK * logical + slot));
            let class = match (logical, token) {
                (None, _) => "p",
                (Some(_), Some(_)) => "k1",
                (Some(_), None) => "o",
            };
            picture.cell((138 + 63 * slot as i32, at), (61, 18), class, token.copied().unwrap_or_default());
        }
    }
    for (logical, physical) in TABLE.into_iter().enumerate() {
        picture.arrow((93, y + 24 + 22 * logical as i32), (122, y + 23 + 20 * physical as i32), "d");
    }
    let at = y + 190;
    picture.cell((10, at), (82, 22), "k3", "query: “who”");
    let lines = [
        "for each block j of the table, in order:",
        "  A_ij = exp(q_i K_jᵀ / √d − m), o_i ← o_i + A_ij V_j",
        "with m and the sum rescaled as above",
    ];
    picture.paragraph(104, at + 12, "s", &lines);
    picture.legend(at + 56, &[("k1", "keys and values"), ("o", "held, not yet filled")]);
    Ok(picture.end())
}
