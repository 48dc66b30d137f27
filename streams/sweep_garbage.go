package streams

// maxTold is how many documents that are no job's are told of singly.
const maxTold = 1000

// garbage is what was found on jobs' subjects and is no job, by sequence: told of once, and never deleted.
type garbage struct{ told map[uint64]bool }

// tellOf tells of a document that nobody of ours writes: it harms nobody, but somebody should know. On a ready subject
// it is left to the next worker, who sets it aside.
func (s *Store) tellOf(r *record, rep *SweepReport) {
	g := &s.sweep.garbage
	if g.told[r.seq] || len(g.told) >= maxTold {
		return
	}
	if r.state == stateReady && s.Now().Before(r.time.Add(s.sweep.after.ready)) {
		return
	}
	if g.told == nil {
		g.told = make(map[uint64]bool)
	}
	g.told[r.seq] = true
	rep.Garbage++
	l := s.log.Error().Uint64("sequence", r.seq).Str("state", string(r.state)).Err(r.bad)
	if r.Job.ID != "" {
		l = l.Stringer("job", r.job().Key())
	}
	l.Msg("housekeeping: a document that is no job's; it is left as it is")
	if len(g.told) == maxTold {
		s.log.Error().Int("documents", maxTold).Msg("housekeeping: no more documents that are no jobs' are told of")
	}
}
