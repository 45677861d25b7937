//! Takes kernels and modules out of what distributions pack them in.
//!
//! LZ4 and gzip are undone here; for xz and zstd the tools are asked, which every distribution that
//! packs that way has.

use crate::fault::{Doing, Fault};
use crate::lab::{Room, ToolRun};
use std::io::Read;

/// The most that a packed file may become, in bytes.
const LIMIT: usize = 1 << 30;

/// The most that one block of the LZ4 legacy format may become.
///
/// Source: `lz4_Frame_format.md` of LZ4, "Legacy frame".
const LZ4_BLOCK: usize = 8 << 20;

const LZ4_LEGACY: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Unpacks `packed`; returns the bytes themselves when they are not packed.
///
/// # Errors
/// Broken data, or a format whose tool is not there.
pub(crate) fn unpack(packed: Vec<u8>, room: &Room) -> Result<Vec<u8>, Fault> {
    if let Some(blocks) = packed.strip_prefix(LZ4_LEGACY) {
        lz4_legacy(blocks)
    } else if packed.starts_with(GZIP) {
        gzip(&packed)
    } else if packed.starts_with(XZ) {
        ask("xz", packed, room)
    } else if packed.starts_with(ZSTD) {
        ask("zstd", packed, room)
    } else {
        Ok(packed)
    }
}

fn lz4_legacy(mut blocks: &[u8]) -> Result<Vec<u8>, Fault> {
    let broken = || Fault::machine("the LZ4 data ends within a block");
    let mut plain = Vec::new();
    while !blocks.is_empty() {
        let (length, rest) = blocks.split_first_chunk().ok_or_else(broken)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| broken())?;
        let (block, rest) = rest.split_at_checked(length).ok_or_else(broken)?;
        plain.extend(lz4_flex::block::decompress(block, LZ4_BLOCK).doing("read an LZ4 block")?);
        if plain.len() > LIMIT {
            return Err(Fault::machine("the LZ4 data becomes larger than 1 GiB"));
        }
        blocks = rest;
    }
    Ok(plain)
}

fn gzip(packed: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut plain = Vec::new();
    let limit = u64::try_from(LIMIT).unwrap_or(u64::MAX);
    let mut limited = flate2::read::GzDecoder::new(packed).take(limit);
    limited.read_to_end(&mut plain).doing("read gzip data")?;
    Ok(plain)
}

fn ask(tool: &str, packed: Vec<u8>, room: &Room) -> Result<Vec<u8>, Fault> {
    ToolRun { input: Some(&packed), ..ToolRun::new(&[tool, "-dc"]) }.run(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lz4_blocks_are_joined() {
        let mut packed = Vec::new();
        for part in [b"first ".repeat(50), b"second".to_vec()] {
            let block = lz4_flex::block::compress(&part);
            packed.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
            packed.extend(block);
        }
        let plain = lz4_legacy(&packed).unwrap();
        assert_eq!(plain.len(), 306);
        assert!(plain.ends_with(b"first second"));
    }

    #[test]
    fn lz4_data_that_ends_early_is_refused() {
        assert!(lz4_legacy(&[9, 0]).is_err());
        assert!(lz4_legacy(&[9, 0, 0, 0, 1]).is_err());
        assert!(lz4_legacy(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).is_err());
    }
}
