"""The formats as Spark knows them. Thin: everything else is imported when it is used.

Spark imports the modules that register them in every session, whether they are used or not: so nothing heavy here.
"""

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyromq.spark.errors import plainly

if TYPE_CHECKING:
    from pyromq.arrow.rowshape import RowShape
    from pyromq.spark.log.options import LogOptions
    from pyromq.spark.source.options import SourceOptions


class RocketMQSource(DataSource):
    """Format `rocketmq`: topics as streams, as batches, and to write to.

    >>> spark.readStream.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders").load()
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    @plainly
    def schema(self) -> str:
        from pyromq.spark.task.rowplan import schema_ddl  # noqa: PLC0415 - see above

        return schema_ddl(self._source_options())

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        from pyromq.spark.source.batchreader import BatchReader, FilteringReader  # noqa: PLC0415 - see above

        options = self._source_options()
        kind = FilteringReader if options.push_down_filters else BatchReader
        return kind(options, _row_shape(options, schema))

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from pyromq.spark.source.streamreader import StreamReader  # noqa: PLC0415 - see above

        options = self._source_options()
        return StreamReader(options, partial(_row_shape, options, schema))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002 - rows say what they have
        from pyromq.spark.sink.writers import batch_writer  # noqa: PLC0415 - see above

        return batch_writer(self.options, overwrite=overwrite)

    @plainly
    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,  # noqa: ARG002 - rows say what they have
        overwrite: bool,
    ) -> DataSourceStreamArrowWriter:
        from pyromq.spark.sink.writers import stream_writer  # noqa: PLC0415 - see above

        return stream_writer(self.options, overwrite=overwrite)

    def _source_options(self) -> "SourceOptions":
        from pyromq.spark.options import read_options  # noqa: PLC0415 - see above
        from pyromq.spark.source.options import SourceOptions  # noqa: PLC0415 - see above

        return read_options(SourceOptions, self.options)


class RocketMQLogSource(DataSource):
    """Format `rocketmq-log`: the files of a store, without a broker.

    >>> spark.read.format("rocketmq-log").option("topic", "orders").load("/data/store")
    """

    @classmethod
    def name(cls) -> str:
        return "rocketmq-log"

    @plainly
    def schema(self) -> str:
        from pyromq.spark.task.rowplan import schema_ddl  # noqa: PLC0415 - see above

        return schema_ddl(self._log_options())

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        from pyromq.spark.log.reader import LogReader  # noqa: PLC0415 - see above

        options = self._log_options()
        return LogReader(options, _row_shape(options, schema))

    def _log_options(self) -> "LogOptions":
        from pyromq.spark.log.options import LogOptions  # noqa: PLC0415 - see above
        from pyromq.spark.options import read_options  # noqa: PLC0415 - see above

        return read_options(LogOptions, self.options)


def _row_shape(options: "SourceOptions | LogOptions", schema: StructType) -> "RowShape":
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - see above

    from pyromq.spark.task.rowplan import row_shape  # noqa: PLC0415 - see above

    arrow = to_arrow_schema(schema, timezone="UTC")
    return row_shape(options, arrow, tags=options.wanted_tags, corrupt=options.corrupt_records)
