package natstest

import "github.com/anishathalye/porcupine"

// ByKey parts a history by what its operations are about, so that each part is checked by itself.
func ByKey[K comparable](of func(porcupine.Operation) K) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make(map[K][]porcupine.Operation)
		for _, o := range history {
			byKey[of(o)] = append(byKey[of(o)], o)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	}
}
