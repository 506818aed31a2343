package controller

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agrajag-dev/agrajag/internal/checker"
	"github.com/agrajag-dev/agrajag/internal/health"
)

func startOf(name string, after time.Duration) checker.Start {
	return checker.Start{Job: name, UID: types.UID(name), At: t0.Add(after)}
}

func askedOf(name string, after time.Duration) checker.Start {
	start := startOf(name, after)
	start.Asked = true
	return start
}

func TestStartsOfARow(t *testing.T) {
	row, other := health.Key{Tool: "search"}, health.Key{Tool: "orders"}
	for _, tc := range []struct {
		name   string
		before []checker.Start // begun by this manager
		forget types.UID
		blamed map[types.UID]string // whom alone a verdict blames
		stored []checker.Start
		own    checker.Start
		most   int
		want   []string // newest first
	}{
		{name: "a first one", own: startOf("a", 0), most: 2},
		{name: "one that the cache does not show yet counts", before: []checker.Start{startOf("a", 0)}, own: startOf("b", time.Minute), most: 1, want: []string{"a"}},
		{name: "one that another manager began counts", stored: []checker.Start{startOf("a", 0)}, own: startOf("b", time.Minute), most: 1, want: []string{"a"}},
		{name: "one that both know counts once", before: []checker.Start{startOf("a", 0)}, stored: []checker.Start{startOf("a", 0)}, own: askedOf("b", time.Minute), most: 2},
		{name: "errors leave the last time to people", before: []checker.Start{startOf("a", 0)}, own: startOf("b", time.Minute), most: 2, want: []string{"a"}},
		{name: "people leave the last time to errors", before: []checker.Start{askedOf("a", 0)}, own: askedOf("b", time.Minute), most: 2, want: []string{"a"}},
		{name: "which an error gets", before: []checker.Start{askedOf("a", 0)}, own: startOf("b", time.Minute), most: 2},
		{name: "as many as may are enough", before: []checker.Start{askedOf("a", 0)}, own: askedOf("c", time.Minute), stored: []checker.Start{askedOf("b", time.Second)}, most: 2, want: []string{"b", "a"}},
		{name: "the newest is named first", before: []checker.Start{startOf("a", time.Second)}, stored: []checker.Start{startOf("b", 0), startOf("c", 2*time.Second)},
			own: startOf("d", time.Minute), most: 3, want: []string{"c", "a", "b"}},
		{name: "after an hour it counts no more", before: []checker.Start{startOf("a", 0)}, own: startOf("b", time.Hour), most: 1},
		{name: "a job that begins again takes no second place", before: []checker.Start{startOf("a", 0)}, own: startOf("a", time.Minute), most: 1},
		{name: "one whose claim failed is taken back", before: []checker.Start{startOf("a", 0)}, forget: "a", own: startOf("b", time.Minute), most: 1},
		{name: "one that blames another user counts for that user alone", before: []checker.Start{startOf("a", 0), startOf("b", time.Second)},
			blamed: map[types.UID]string{"a": "bob", "c": "bob"}, own: startOf("d", time.Minute), most: 1, want: []string{"b"}},
		{name: "one's own verdict counts", before: []checker.Start{startOf("a", 0)}, blamed: map[types.UID]string{"a": "alice"}, own: startOf("b", time.Minute), most: 1, want: []string{"a"}},
		{name: "without a limit nothing is refused", before: []checker.Start{startOf("a", 0)}, own: startOf("b", time.Minute)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s starts
			for _, before := range tc.before {
				s.begin(row, "alice", before, nil, 0)
			}
			for uid, user := range tc.blamed {
				s.found(row, uid, user)
			}
			s.forget(row, tc.forget)
			if full := s.begin(other, "alice", startOf("elsewhere", 0), nil, 1); full != nil {
				t.Errorf("another row is refused for %v", full)
			}
			var got []string
			if full := s.begin(row, "alice", tc.own, tc.stored, tc.most); full != nil {
				for _, start := range full.Starts {
					got = append(got, start.Job)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("in its way are (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStartsAtOnceAreCounted(t *testing.T) {
	var s starts
	var began atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if s.begin(health.Key{Tool: "search"}, "alice", startOf(fmt.Sprint(i), time.Duration(i)), nil, 4) == nil {
				began.Add(1)
			}
		})
	}
	wg.Wait()
	if began.Load() != 3 {
		t.Errorf("%d of 64 errors began at once, want 3 of 4: one is kept for people", began.Load())
	}
	s.begin(health.Key{Tool: "orders"}, "alice", startOf("later", 2*time.Hour), nil, 4)
	if len(s.rows) != 1 {
		t.Errorf("rows of former hours are kept: %v", s.rows)
	}
}
