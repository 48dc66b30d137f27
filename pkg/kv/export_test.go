package kv

// Stored is how many entries a Memory holds, lapsed ones among them, and how many of them have a lifetime.
func (m *Memory) Stored() (entries, mortal, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries), len(m.mortal), m.bytes
}

// Lines is how many keys have changes waiting.
func (s *Store) Lines() int {
	s.lines.mu.Lock()
	defer s.lines.mu.Unlock()
	return len(s.lines.byKey)
}

// DecodeList reads a stored list.
func DecodeList(raw string) []Entry { return decodeList(raw) }
