package kvbucket

// Subject is where a key stands in NATS, as permissions and denials name it: v/acme/board of the namespace "jetcrew" is
// $KV.JETCREW_KV.v.acme.board.
func Subject(namespace, key string) string { return "$KV." + bucketName(namespace) + "." + encode(key) }

// Subjects is the filter of all keys with a prefix: v/acme/ of the namespace "jetcrew" is $KV.JETCREW_KV.v.acme.>. Where a
// prefix ends within a token, it is that of the whole tokens before.
func Subjects(namespace, prefix string) string {
	return "$KV." + bucketName(namespace) + "." + filter(prefix)
}

// Stream is the stream of the bucket: KV_JETCREW_KV of the namespace "jetcrew".
func Stream(namespace string) string { return "KV_" + bucketName(namespace) }
