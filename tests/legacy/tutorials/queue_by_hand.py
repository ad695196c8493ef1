"""A queue made by hand: a QueueRunner fills it, a Coordinator ends its threads."""

import sys

import tensorflow as tf


def inputs(filenames, batch_size=4, num_epochs=2):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=3)
    _, record = reader.read(filename_queue)
    example = tf.cast(tf.decode_raw(record, tf.uint8), tf.float32)
    example.set_shape([3])
    queue = tf.FIFOQueue(capacity=20, dtypes=[tf.float32], shapes=[[3]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue([example])])
    tf.train.add_queue_runner(runner)
    return queue.dequeue_many(batch_size)


def main(filenames):
    batch = inputs(filenames)
    total = tf.reduce_sum(batch)
    totals = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        try:
            while not coord.should_stop():
                totals.append(sess.run(total))
        except tf.errors.OutOfRangeError:
            sys.stdout.write(f"Done training, {len(totals)} steps\n")
        finally:
            coord.request_stop()
        coord.join(threads)
    sys.stdout.write(f"total {float(sum(totals))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
