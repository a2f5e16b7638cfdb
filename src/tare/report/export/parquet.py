"""Tables as Parquet: a file for each, in a folder. The samples are written in row groups of bounded size."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tare.report.export.csv import folder_of_files
from tare.report.export.format import FilesFormat
from tare.report.frames import TABLES, Samples, Source
from tare.report.frames.frame import arrow_batches, arrow_schema, load


def write(source: Source, path: Path) -> None:
    """Write every table and the samples; raises `MissingTool` if pyarrow is not installed."""
    load("pyarrow")
    parquet = load("pyarrow.parquet")
    with folder_of_files(path) as new:
        for table in TABLES.values():
            with new(f"{table.name}.parquet") as file:
                schema = arrow_schema(table.columns)
                with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                    for batch in arrow_batches(table.columns, table.rows(source)):
                        writer.write_batch(batch)
        with new("samples.parquet") as file:
            Samples(source, counted=False).write_parquet(file)


PARQUET: Final = FilesFormat(
    meaning="tables and samples as Parquet, in a folder; needs pyarrow", zips=False, write=write
)
