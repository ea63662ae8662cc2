/* Graphs of near neighbours in levels: walked, and grown.
 *
 *     level 2        ●───────────────●            few nodes, of which one is the entry
 *     level 1        ●────●──────────●─────●      one node in m of the level below
 *     level 0    ●─●─●─●──●─●──●─●───●──●──●─●    all nodes
 *
 * Lists of neighbours lie in rows: row `node` of level 0, and row `upper[node] + level - 1` above. The rows of a graph that
 * was read are ragged (offsets); those of one that grows have room for `width` neighbours each (sizes).
 *
 * A node on the way is a number that sorts by distance: [distance : 32][node : 31][expanded : 1]. */
#ifndef LANCELET_GRAPH_H
#define LANCELET_GRAPH_H

#include <stdlib.h>

#include "points.h"

typedef uint64_t lc_mark;

static inline lc_mark lc_mark_of(float distance, uint32_t node) {
    uint32_t bits;
    distance += 0.0f; /* one zero */
    memcpy(&bits, &distance, 4);
    bits ^= (uint32_t)((int32_t)bits >> 31) | 0x80000000u;
    return (lc_mark)bits << 32 | (lc_mark)node << 1;
}

static inline uint32_t lc_node(lc_mark mark) { return (uint32_t)(mark >> 1) & 0x7fffffffu; }

static inline float lc_distance(lc_mark mark) {
    uint32_t bits = (uint32_t)(mark >> 32);
    float distance;
    bits ^= bits & 0x80000000u ? 0x80000000u : 0xffffffffu;
    memcpy(&distance, &bits, 4);
    return distance;
}

/* ---- lists ---- */

typedef struct {
    const int32_t *offsets; /* ragged, or NULL */
    uint32_t *values;
    uint16_t *sizes;
    size_t width;
} lc_lists;

typedef struct {
    size_t count;
    lc_lists base, above;
    const uint32_t *upper;
    uint32_t entry;
    int top; /* the highest level of the entry */
} lc_graph;

static inline const uint32_t *lc_neighbours(const lc_graph *graph, int level, uint32_t node, size_t *n) {
    const lc_lists *lists = level ? &graph->above : &graph->base;
    size_t row = level ? (size_t)graph->upper[node] + (size_t)level - 1 : node;
    if (lists->offsets) {
        *n = (size_t)(lists->offsets[row + 1] - lists->offsets[row]);
        return lists->values + lists->offsets[row];
    }
    *n = lists->sizes[row];
    return lists->values + row * lists->width;
}

/* ---- what a walk needs, kept from one to the next ---- */

typedef struct {
    uint8_t *seen;
    uint8_t stamp;
    size_t count;
    lc_mark *pool; /* the nearest, sorted */
    size_t size, room;
    lc_mark *front; /* a heap of what is still to be expanded, where the pool does not take all */
    size_t waiting, front_room;
    uint32_t *ids;
    float *distances;
    size_t ids_room;
    size_t compared;
} lc_walk;

static int lc_walk_begin(lc_walk *walk, size_t count) {
    memset(walk, 0, sizeof *walk);
    walk->seen = (uint8_t *)calloc(count ? count : 1, 1);
    walk->count = count;
    return walk->seen != NULL;
}

static void lc_walk_end(lc_walk *walk) {
    free(walk->seen);
    free(walk->pool);
    free(walk->front);
    free(walk->ids);
    free(walk->distances);
    memset(walk, 0, sizeof *walk);
}

static int lc_walk_reserve(lc_walk *walk, size_t pool, size_t ids) {
    if (pool > walk->room) {
        void *more = realloc(walk->pool, pool * sizeof(lc_mark));
        if (!more) return 0;
        walk->pool = (lc_mark *)more;
        walk->room = pool;
    }
    if (ids > walk->ids_room) {
        void *more = realloc(walk->ids, ids * sizeof(uint32_t));
        if (!more) return 0;
        walk->ids = (uint32_t *)more;
        more = realloc(walk->distances, ids * sizeof(float));
        if (!more) return 0;
        walk->distances = (float *)more;
        walk->ids_room = ids;
    }
    return 1;
}

static inline void lc_walk_forget(lc_walk *walk) {
    if (++walk->stamp == 0) {
        memset(walk->seen, 0, walk->count);
        walk->stamp = 1;
    }
    walk->size = walk->waiting = 0;
}

/* Neighbours that were not met before, noted as met. */
static inline size_t lc_gather(lc_walk *walk, const lc_points *points, const uint32_t *list, size_t n) {
    size_t fresh = 0;
    uint8_t stamp = walk->stamp, *seen = walk->seen;
    for (size_t i = 0; i < n; i++) {
        uint32_t node = list[i];
        walk->ids[fresh] = node;
        fresh += seen[node] != stamp;
        seen[node] = stamp;
    }
    for (size_t i = 0; i < fresh && i < LC_AHEAD; i++) lc_fetch(points, walk->ids[i]);
    return fresh;
}

/* Into the pool, which holds at most `ef`; where it went, or `ef` when it is too far. */
static inline size_t lc_pool_add(lc_walk *walk, size_t ef, lc_mark mark) {
    lc_mark *pool = walk->pool;
    size_t low = 0, high = walk->size;
    if (high == ef) {
        if (mark >= pool[ef - 1]) return ef;
        high--;
    } else
        walk->size++;
    size_t last = high;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (pool[middle] < mark)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(pool + low + 1, pool + low, (last - low) * sizeof(lc_mark));
    pool[low] = mark;
    return low;
}

/* The nearest node of a level, by steps to nearer ones. */
static lc_mark lc_descend(const lc_graph *graph, const lc_points *points, lc_compare compare, const void *query,
                          lc_walk *walk, lc_mark at, int from, int above) {
    for (int level = from; level > above; level--)
        for (;;) {
            size_t n;
            const uint32_t *list = lc_neighbours(graph, level, lc_node(at), &n);
            lc_mark best = at;
            compare(points, query, list, n, walk->distances);
            walk->compared += n;
            for (size_t i = 0; i < n; i++) {
                lc_mark mark = lc_mark_of(walk->distances[i], list[i]);
                if (mark < best) best = mark;
            }
            if (best == at) break;
            at = best;
        }
    return at;
}

/* The `ef` nearest nodes of a level, into the pool; what the pool has at the beginning is where the walk begins. */
static void lc_beam(const lc_graph *graph, const lc_points *points, lc_compare compare, const void *query, lc_walk *walk,
                    int level, size_t ef) {
    size_t next = 0;
    while (next < walk->size) {
        if (walk->pool[next] & 1) {
            next++;
            continue;
        }
        size_t n;
        const uint32_t *list = lc_neighbours(graph, level, lc_node(walk->pool[next]), &n);
        walk->pool[next] |= 1;
        if (next + 1 < walk->size) {
            size_t ignored;
            LC_PREFETCH(lc_neighbours(graph, level, lc_node(walk->pool[next + 1]), &ignored));
        }
        n = lc_gather(walk, points, list, n);
        compare(points, query, walk->ids, n, walk->distances);
        walk->compared += n;
        for (size_t i = 0; i < n; i++) {
            size_t at = lc_pool_add(walk, ef, lc_mark_of(walk->distances[i], walk->ids[i]));
            if (at < next) next = at;
        }
    }
}

static int lc_front_push(lc_walk *walk, lc_mark mark) {
    if (walk->waiting == walk->front_room) {
        size_t room = walk->front_room ? 2 * walk->front_room : 1024;
        void *more = realloc(walk->front, room * sizeof(lc_mark));
        if (!more) return 0;
        walk->front = (lc_mark *)more;
        walk->front_room = room;
    }
    size_t at = walk->waiting++;
    while (at && walk->front[(at - 1) / 2] > mark) {
        walk->front[at] = walk->front[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    walk->front[at] = mark;
    return 1;
}

static lc_mark lc_front_pop(lc_walk *walk) {
    lc_mark first = walk->front[0], last = walk->front[--walk->waiting];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < walk->waiting) {
        if (child + 1 < walk->waiting && walk->front[child + 1] < walk->front[child]) child++;
        if (walk->front[child] >= last) break;
        walk->front[at] = walk->front[child];
        at = child;
    }
    if (walk->waiting) walk->front[at] = last;
    return first;
}

/* The same for rows that are kept and not nearer than `lower`: the others lead on, but take no place in the pool. */
static int lc_beam_kept(const lc_graph *graph, const lc_points *points, lc_compare compare, const void *query,
                        lc_walk *walk, size_t ef, const uint8_t *keep, float lower) {
    lc_mark floor = lc_mark_of(lower, 0);
    size_t start = walk->size;
    walk->size = walk->waiting = 0;
    for (size_t i = 0; i < start; i++)
        if (!lc_front_push(walk, walk->pool[i])) return 0;
    for (size_t i = 0; i < walk->waiting; i++) {
        lc_mark mark = walk->front[i];
        if ((!keep || keep[lc_node(mark)]) && mark >= floor) lc_pool_add(walk, ef, mark);
    }
    while (walk->waiting) {
        lc_mark nearest = lc_front_pop(walk);
        if (walk->size == ef && nearest > walk->pool[ef - 1]) break;
        size_t n;
        const uint32_t *list = lc_neighbours(graph, 0, lc_node(nearest), &n);
        n = lc_gather(walk, points, list, n);
        compare(points, query, walk->ids, n, walk->distances);
        walk->compared += n;
        for (size_t i = 0; i < n; i++) {
            uint32_t node = walk->ids[i];
            lc_mark mark = lc_mark_of(walk->distances[i], node);
            if (walk->size == ef && mark > walk->pool[ef - 1]) continue;
            if (!lc_front_push(walk, mark)) return 0;
            if ((!keep || keep[node]) && mark >= floor) lc_pool_add(walk, ef, mark);
        }
    }
    return 1;
}

/* The nearest nodes that count, `ef` of them and never fewer than two, sorted, into the pool. Walks begin also at the entry
 * itself: from there all nodes of a graph that was built here can be reached. Returns 0 when memory is short. */
static int lc_search(const lc_graph *graph, const lc_points *points, lc_compare compare, const void *query, lc_walk *walk,
                     size_t ef, const uint8_t *keep, float lower, size_t widest) {
    float distance;
    if (ef < 2) ef = 2;
    if (!lc_walk_reserve(walk, ef, widest)) return 0;
    lc_walk_forget(walk);
    compare(points, query, &graph->entry, 1, &distance);
    lc_mark entry = lc_mark_of(distance, graph->entry);
    lc_mark at = lc_descend(graph, points, compare, query, walk, entry, graph->top, 0);
    walk->compared++;
    walk->seen[graph->entry] = walk->seen[lc_node(at)] = walk->stamp;
    lc_pool_add(walk, ef, at);
    if (at != entry) lc_pool_add(walk, ef, entry);
    if (keep || lower > -INFINITY) return lc_beam_kept(graph, points, compare, query, walk, ef, keep, lower);
    lc_beam(graph, points, compare, query, walk, 0, ef);
    return 1;
}

/* ---- growing ---- */

typedef struct {
    lc_graph graph;
    lc_points points;
    const uint8_t *heights; /* the highest level of each node */
    const uint32_t *order;  /* nodes as they are added; the first one is the entry, and none is higher */
    size_t limits[2];       /* how many neighbours a node may have on level 0, and above */
    size_t ef;
} lc_growth;

typedef struct {
    lc_walk walk;
    float *room, *near;
    lc_mark *marks;
} lc_hand;

static int lc_hand_begin(lc_hand *hand, const lc_growth *growth, size_t batch) {
    size_t widest = growth->graph.base.width + 1;
    hand->room = (float *)malloc(2 * (growth->points.dim + 1) * sizeof(float));
    hand->near = (float *)malloc((widest + 8) * sizeof(float));
    hand->marks = (lc_mark *)malloc(widest * sizeof(lc_mark));
    return lc_walk_begin(&hand->walk, growth->graph.count) && hand->room && hand->near && hand->marks &&
           lc_walk_reserve(&hand->walk, growth->ef + 1, widest > batch ? widest : batch);
}

static void lc_hand_end(lc_hand *hand) {
    lc_walk_end(&hand->walk);
    free(hand->room);
    free(hand->near);
    free(hand->marks);
    memset(hand, 0, sizeof *hand);
}

/* Squared distances may be so much longer by way of another neighbour. */
#define LC_DETOUR 1.44f

/* Of candidates, the nearest first, those that are nearer to the node than to any one that was taken before: ways into all
 * directions. Then those that are not much nearer to such a one, and then the nearest, until there are `limit`. Of the three
 * steps the first keeps the graph together, the second finds what lies beside the vectors that the graph knows, and the last
 * fills up. Products are no distances that could be stretched: they have two steps. */
static size_t lc_select(const lc_growth *growth, lc_hand *hand, lc_mark *marks, size_t n, size_t limit, uint32_t *out) {
    const lc_points *points = &growth->points;
    size_t taken = 0;
    for (size_t i = 0; i < n; i++) marks[i] &= ~(lc_mark)1;
    for (int step = 0; step < (points->metric == LC_DOT ? 1 : 2); step++)
        for (size_t i = 0; i < n && taken < limit; i++) {
            uint32_t node = lc_node(marks[i]);
            float apart = lc_distance(marks[i]), detour = step ? LC_DETOUR : 1.0f;
            int diverse = !(marks[i] & 1);
            if (taken && diverse) {
                const void *peer = lc_peer(points, node, hand->room);
                for (size_t j = 0; j < taken && diverse; j += 8) {
                    size_t some = taken - j < 8 ? taken - j : 8;
                    points->peers(points, peer, out + j, some, hand->near);
                    for (size_t k = 0; k < some; k++) diverse &= !(hand->near[k] * detour < apart);
                }
            }
            if (diverse) {
                out[taken++] = node;
                marks[i] |= 1;
            }
        }
    for (size_t i = 0; i < n && taken < limit; i++)
        if (!(marks[i] & 1)) out[taken++] = lc_node(marks[i]);
    return taken;
}

/* Neighbours for the node at a place in the order: those of all levels up to its height, each list after its length in
 * `chosen`. Nodes from `first` on are added at the same time and not in the graph yet: they are compared one by one. */
static void lc_choose_neighbours(const lc_growth *growth, lc_hand *hand, size_t place, size_t first, uint32_t *chosen) {
    const lc_graph *graph = &growth->graph;
    const lc_points *points = &growth->points;
    lc_walk *walk = &hand->walk;
    uint32_t node = growth->order[place];
    int height = growth->heights[node];
    float *own = hand->room + growth->points.dim + 1, distance;
    const void *peer = lc_peer(points, node, own);
    points->peers(points, peer, &graph->entry, 1, &distance);
    lc_mark at = lc_descend(graph, points, points->peers, peer, walk, lc_mark_of(distance, graph->entry), graph->top, height);
    for (int level = height; level >= 0; level--) {
        size_t n = 0;
        uint32_t *list = chosen + (size_t)level * (growth->limits[0] + 1);
        lc_walk_forget(walk);
        walk->seen[lc_node(at)] = walk->stamp;
        walk->pool[0] = at;
        walk->size = 1;
        lc_beam(graph, points, points->peers, peer, walk, level, growth->ef);
        at = walk->pool[0] & ~(lc_mark)1;
        for (size_t i = first; i < place; i++)
            if (growth->heights[growth->order[i]] >= level) walk->ids[n++] = growth->order[i];
        points->peers(points, peer, walk->ids, n, walk->distances);
        for (size_t i = 0; i < n; i++) lc_pool_add(walk, growth->ef, lc_mark_of(walk->distances[i], walk->ids[i]));
        list[0] = (uint32_t)lc_select(growth, hand, walk->pool, walk->size, growth->limits[level > 0], list + 1);
    }
}

static void lc_sort_marks(lc_mark *marks, size_t n) {
    for (size_t i = 1; i < n; i++) {
        lc_mark mark = marks[i];
        size_t j = i;
        for (; j && marks[j - 1] > mark; j--) marks[j] = marks[j - 1];
        marks[j] = mark;
    }
}

/* Leave at most as many neighbours in a list as its level allows; `more` is one that has no room, or the node itself. */
static void lc_prune(lc_growth *growth, lc_hand *hand, int level, uint32_t node, size_t row, uint32_t more) {
    lc_lists *lists = level ? &growth->graph.above : &growth->graph.base;
    uint32_t *list = lists->values + row * lists->width, *ids = hand->walk.ids;
    size_t n = lists->sizes[row];
    float *own = hand->room + growth->points.dim + 1;
    memcpy(ids, list, n * sizeof(uint32_t));
    if (more != node) ids[n++] = more;
    growth->points.peers(&growth->points, lc_peer(&growth->points, node, own), ids, n, hand->walk.distances);
    for (size_t i = 0; i < n; i++) hand->marks[i] = lc_mark_of(hand->walk.distances[i], ids[i]);
    lc_sort_marks(hand->marks, n);
    lists->sizes[row] = (uint16_t)lc_select(growth, hand, hand->marks, n, growth->limits[level > 0], list);
}

/* A way back from a neighbour to the node that chose it. */
static void lc_link(lc_growth *growth, lc_hand *hand, int level, uint32_t from, uint32_t to) {
    lc_lists *lists = level ? &growth->graph.above : &growth->graph.base;
    size_t row = level ? (size_t)growth->graph.upper[from] + (size_t)level - 1 : from;
    if (lists->sizes[row] < lists->width)
        lists->values[row * lists->width + lists->sizes[row]++] = to;
    else
        lc_prune(growth, hand, level, from, row, to);
}

/* Lists that have more neighbours than their level allows, cut to that. */
static void lc_trim(lc_growth *growth, lc_hand *hand, uint32_t first, uint32_t last) {
    for (uint32_t node = first; node < last; node++)
        for (int level = 0; level <= growth->heights[node]; level++) {
            lc_lists *lists = level ? &growth->graph.above : &growth->graph.base;
            size_t row = level ? (size_t)growth->graph.upper[node] + (size_t)level - 1 : node;
            if (lists->sizes[row] > growth->limits[level > 0]) lc_prune(growth, hand, level, node, row, node);
        }
}

/* Go on to all that can be reached on level 0 from the nodes in queue[from .. to); where the queue ends then. */
static size_t lc_reach(const lc_graph *graph, uint32_t *parents, uint32_t *queue, size_t from, size_t to) {
    for (; from < to; from++) {
        size_t n;
        const uint32_t *list = lc_neighbours(graph, 0, queue[from], &n);
        for (size_t i = 0; i < n; i++)
            if (parents[list[i]] == UINT32_MAX) {
                parents[list[i]] = queue[from];
                queue[to++] = list[i];
            }
    }
    return to;
}

/* A way from one node to another on level 0: in a free place, or instead of the farthest neighbour that can be reached from
 * somewhere else too. 0 when there is none. */
static int lc_bridge(lc_growth *growth, lc_hand *hand, const uint32_t *parents, uint32_t from, uint32_t to) {
    lc_lists *base = &growth->graph.base;
    uint32_t *list = base->values + (size_t)from * base->width;
    size_t n = base->sizes[from], farthest = n;
    if (n < growth->limits[0]) {
        list[base->sizes[from]++] = to;
        return 1;
    }
    float *own = hand->room + growth->points.dim + 1;
    growth->points.peers(&growth->points, lc_peer(&growth->points, from, own), list, n, hand->walk.distances);
    for (size_t i = 0; i < n; i++)
        if (parents[list[i]] != from &&
            (farthest == n || hand->walk.distances[i] > hand->walk.distances[farthest]))
            farthest = i;
    if (farthest == n) return 0;
    list[farthest] = to;
    return 1;
}

/* Make a way from the entry to every node of level 0. The first way to each is never taken away, so that one node more can be
 * reached after every step: while there are more ways than nodes, some node has one to spare. */
static int lc_connect(lc_growth *growth, lc_hand *hand, uint32_t *parents, uint32_t *queue) {
    lc_graph *graph = &growth->graph;
    size_t reached = 1, count = graph->count, i;
    memset(parents, 0xff, count * sizeof(uint32_t));
    parents[graph->entry] = graph->entry;
    queue[0] = graph->entry;
    reached = lc_reach(graph, parents, queue, 0, 1);
    for (uint32_t node = 0; node < count && reached < count; node++) {
        if (parents[node] != UINT32_MAX) continue;
        float *own = hand->room + growth->points.dim + 1;
        lc_walk *walk = &hand->walk;
        uint32_t from = UINT32_MAX;
        if (!lc_search(graph, &growth->points, growth->points.peers, lc_peer(&growth->points, node, own), walk, growth->ef,
                       NULL, -INFINITY, graph->base.width + 1))
            return 0;
        for (i = 0; i < walk->size && from == UINT32_MAX; i++)
            if (parents[lc_node(walk->pool[i])] != UINT32_MAX &&
                lc_bridge(growth, hand, parents, lc_node(walk->pool[i]), node))
                from = lc_node(walk->pool[i]);
        for (i = 0; i < reached && from == UINT32_MAX; i++)
            if (lc_bridge(growth, hand, parents, queue[i], node)) from = queue[i];
        if (from == UINT32_MAX) return 0;
        parents[node] = from;
        queue[reached] = node;
        reached = lc_reach(graph, parents, queue, reached, reached + 1);
    }
    return 1;
}

#endif
