// A member of a group that uses franz-go; its lines are those of tests/live/member.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const pollFor = 50 * time.Millisecond

type member struct {
	options map[string]string
	client  *kgo.Client
	mutex   sync.Mutex
	owned   map[int32]bool
}

func main() {
	m := &member{options: map[string]string{}, owned: map[int32]bool{}}
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		m.options[name] = value
	}
	if err := m.run(); err != nil {
		say("fatal", err.Error())
		os.Exit(1)
	}
}

func (m *member) run() error {
	client, err := kgo.NewClient(m.configuration()...)
	if err != nil {
		return err
	}
	m.client = client
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(os.Stdin)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
	}()
	for {
		select {
		case line, open := <-lines:
			if !open {
				line = "close"
			}
			words := strings.Fields(line)
			if err := m.obey(words[0], words[1:]); err != nil {
				say("failed", words[0], err.Error())
			}
			if words[0] == "close" {
				return nil
			}
		default:
			within, cancel := context.WithTimeout(context.Background(), pollFor)
			m.client.PollFetches(within)
			cancel()
		}
	}
}

func (m *member) configuration() []kgo.Opt {
	balancer := kgo.RangeBalancer()
	if strings.HasPrefix(m.options["assignor"], "cooperative") {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(m.options["bootstrap"]),
		kgo.ClientID(m.options["client"]),
		kgo.ConsumerGroup(m.options["group"]),
		kgo.ConsumeTopics(m.options["topic"]),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(m.milliseconds("session_ms")),
		kgo.HeartbeatInterval(m.milliseconds("heartbeat_ms")),
		kgo.RebalanceTimeout(m.milliseconds("rebalance_ms")),
		kgo.DisableAutoCommit(),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(m.tell("assigned", true)),
		kgo.OnPartitionsRevoked(m.tell("revoked", false)),
		kgo.OnPartitionsLost(m.tell("lost", false)),
	}
	if mechanism := login(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	if instance, given := m.options["instance"]; given {
		options = append(options, kgo.InstanceID(instance))
	}
	return options
}

// login says how to log in, if the member has to: MECHANISM USER PASSWORD.
func login() sasl.Mechanism {
	words := strings.Fields(os.Getenv("MEMBER_LOGIN"))
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "PLAIN":
		return plain.Auth{User: words[1], Pass: words[2]}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: words[1], Pass: words[2]}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: words[2]}.AsMechanism()
	}
}

func (m *member) milliseconds(name string) time.Duration {
	number, err := strconv.Atoi(m.options[name])
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func (m *member) tell(what string, mine bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		partitions := changed[m.options["topic"]]
		sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
		words := make([]string, len(partitions))
		m.mutex.Lock()
		for at, partition := range partitions {
			words[at] = strconv.Itoa(int(partition))
			if mine {
				m.owned[partition] = true
			} else {
				delete(m.owned, partition)
			}
		}
		m.mutex.Unlock()
		say(what, strings.Join(words, ","))
	}
}

func (m *member) obey(command string, words []string) error {
	within, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	switch command {
	case "commit":
		return m.commit(within, words)
	case "committed":
		return m.committed(within)
	case "close":
		m.client.Close()
		say("done close")
		return nil
	}
	return fmt.Errorf("no such command")
}

func (m *member) commit(within context.Context, words []string) error {
	offsets := map[int32]kgo.EpochOffset{}
	for _, word := range words {
		partition, offset, _ := strings.Cut(word, "=")
		at, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return err
		}
		number, err := strconv.ParseInt(partition, 10, 32)
		if err != nil {
			return err
		}
		offsets[int32(number)] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	var failure error
	m.client.CommitOffsetsSync(
		within,
		map[string]map[int32]kgo.EpochOffset{m.options["topic"]: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failure = err
			if err == nil {
				failure = refusal(answer)
			}
		},
	)
	if failure == nil {
		say("done commit")
	}
	return failure
}

func refusal(answer *kmsg.OffsetCommitResponse) error {
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode != 0 {
				return fmt.Errorf("partition %d: error %d", partition.Partition, partition.ErrorCode)
			}
		}
	}
	return nil
}

func (m *member) committed(within context.Context) error {
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = m.options["group"]
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = m.options["group"]
	request.Groups = append(request.Groups, group)
	answer, err := request.RequestWith(within, m.client)
	if err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	words := []string{"done committed"}
	for _, each := range answer.Groups {
		if each.ErrorCode != 0 {
			return fmt.Errorf("error %d", each.ErrorCode)
		}
		for _, topic := range each.Topics {
			for _, partition := range topic.Partitions {
				if m.owned[partition.Partition] {
					words = append(words, fmt.Sprintf("%d=%d", partition.Partition, partition.Offset))
				}
			}
		}
	}
	say(strings.Join(words, " "))
	return nil
}

var saying sync.Mutex

func say(words ...string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.Join(words, " "))
}
